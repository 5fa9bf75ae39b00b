"""Exit codes shared by every command and every fleet job."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a process ended. The fleet's requeue manager reads `retryable` to decide what happens next."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # wrong usage or settings
    BAD_DATA = 65
    UNAVAILABLE = 69  # a model or a service cannot be reached
    DISK_FULL = 73
    PREEMPTED = 75
    OUT_OF_GPU_MEMORY = 77

    @property
    def retryable(self) -> bool:
        """Whether the same work may succeed when it is simply run again."""
        return self in (ExitCode.FAILED, ExitCode.UNAVAILABLE, ExitCode.DISK_FULL, ExitCode.PREEMPTED)
