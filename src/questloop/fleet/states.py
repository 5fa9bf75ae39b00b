"""Every state and reason of the fleet, and which changes of state are allowed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from questloop.exit_codes import ExitCode


class JobStatus(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    PENDING = "pending"  # tried, and no slot was free
    RUNNING = "running"  # claimed: its process runs, is about to, or is held on a machine out of reach
    LOST = "lost"  # its process is known to be gone without having told how it ended
    FAILED = "failed"  # final once no retry is left
    COMPLETED = "completed"
    CANCELLED = "cancelled"


TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.PENDING, JobStatus.CANCELLED}),
    JobStatus.PENDING: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset(
        {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.LOST}
    ),
    JobStatus.LOST: frozenset({JobStatus.QUEUED, JobStatus.FAILED}),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.COMPLETED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}


SLOT_FREE = "slot_free"
"""Reason in the event of a job that had to wait and was given a slot."""


class JobKind(StrEnum):
    """What a job runs."""

    GRPO = "grpo"  # `questloop grpo`
    JUDGE = "judge"  # `questloop judge train`
    COMMAND = "command"  # the argument list of the row


class FailureReason(StrEnum):
    """Why an attempt did not complete."""

    BAD_ARGUMENTS = "bad_arguments"
    MISSING_DATASET = "missing_dataset"
    BAD_DATA = "bad_data"
    COMMAND_NOT_FOUND = "command_not_found"
    OUT_OF_GPU_MEMORY = "out_of_gpu_memory"
    CUDA_ERROR = "cuda_error"
    DISK_FULL = "disk_full"
    UNAVAILABLE = "unavailable"  # a model or a service
    PREEMPTED = "preempted"
    KILLED = "killed"  # by a signal that the fleet did not send
    ERROR = "error"  # ended with another exit code
    INPUT_UNAVAILABLE = "input_unavailable"
    OUTPUT_NOT_STORED = "output_not_stored"
    LAUNCH_FAILED = "launch_failed"
    LAUNCH_REFUSED = "launch_refused"  # by the machine: its slot is locked, or the fence is stale
    MACHINE_REBOOTED = "machine_rebooted"
    MACHINE_UNREACHABLE = "machine_unreachable"
    RUNNER_GONE = "runner_gone"
    HEARTBEAT_STALE = "heartbeat_stale"
    LEASE_EXPIRED = "lease_expired"

    @property
    def retryable(self) -> bool:
        """Whether the same job may succeed when it is simply run again."""
        return self not in _PERMANENT and self not in _OWN_FAULT

    @property
    def retried_if_asked(self) -> bool:
        """Whether it is the job's own fault, which is retried only where the job asks for that."""
        return self in _OWN_FAULT

    @property
    def blames_machine(self) -> bool:
        """Whether a run of these, from unlike jobs, says that the machine is at fault."""
        return self in _MACHINE


_PERMANENT = frozenset(
    {
        FailureReason.BAD_ARGUMENTS,
        FailureReason.MISSING_DATASET,
        FailureReason.BAD_DATA,
        FailureReason.OUT_OF_GPU_MEMORY,
        FailureReason.OUTPUT_NOT_STORED,
    }
)
_OWN_FAULT = frozenset({FailureReason.ERROR, FailureReason.COMMAND_NOT_FOUND})
_MACHINE = frozenset(
    {
        FailureReason.CUDA_ERROR,
        FailureReason.DISK_FULL,
        FailureReason.LAUNCH_FAILED,
        FailureReason.RUNNER_GONE,
        FailureReason.HEARTBEAT_STALE,
    }
)

REASON_OF_EXIT_CODE: Mapping[int, FailureReason] = {
    ExitCode.USAGE: FailureReason.BAD_ARGUMENTS,
    ExitCode.BAD_DATA: FailureReason.BAD_DATA,
    ExitCode.UNAVAILABLE: FailureReason.UNAVAILABLE,
    ExitCode.DISK_FULL: FailureReason.DISK_FULL,
    ExitCode.PREEMPTED: FailureReason.PREEMPTED,
    ExitCode.OUT_OF_GPU_MEMORY: FailureReason.OUT_OF_GPU_MEMORY,
    126: FailureReason.COMMAND_NOT_FOUND,
    127: FailureReason.COMMAND_NOT_FOUND,
}


class VMState(StrEnum):
    """What the last contact with a machine showed."""

    NEEDS_HOST_KEY = "needs_host_key"  # a bare row: `fleet vm trust`
    HOST_KEY_CHANGED = "host_key_changed"
    NEEDS_SETUP = "needs_setup"  # no usable Python: `fleet vm setup`
    NEW = "new"  # trusted, not polled yet
    READY = "ready"
    UNREACHABLE = "unreachable"


class DrainReason(StrEnum):
    """Why a machine takes no new job."""

    OPERATOR = "operator"
    GPU_COUNT_FELL = "gpu_count_fell"
    FAILING = "failing"  # job after job failed on it


class TransportKind(StrEnum):
    """How a machine is reached."""

    SSH = "ssh"
    LOCAL = "local"


class SlotKind(StrEnum):
    """What a slot is. A CPU slot never counts as a GPU and takes only jobs that ask for none."""

    CUDA = "cuda"
    CPU = "cpu"


class Health(StrEnum):
    """Health of a slot; only a healthy one is ever free."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"  # the driver reports it lost or broken
    UNKNOWN = "unknown"  # the driver does not say
    MISSING = "missing"  # no longer listed


class Ending(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
