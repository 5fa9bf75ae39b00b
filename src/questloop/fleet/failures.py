"""Finds out why an attempt failed, from how its process ended and the end of its log."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from questloop.fleet.attempts import Outcome
from questloop.fleet.states import REASON_OF_EXIT_CODE, Ending, FailureReason

_IN_LOG = (
    (
        r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
        FailureReason.OUT_OF_GPU_MEMORY,
    ),
    # An assertion of a kernel is an index out of range, the program's own; CUDA only passes it on.
    (r"device-side assert|AssertionError", FailureReason.ERROR),
    (
        r"CUDA error|CUDA driver|cudaError|NCCL error|CUDNN_STATUS_|CUBLAS_STATUS_|"
        r"No CUDA GPUs are available|NVML: Driver/library",
        FailureReason.CUDA_ERROR,
    ),
    (r"No space left on device", FailureReason.DISK_FULL),
    (
        r"DatasetNotFoundError|Couldn't find any data file|dataset .*(not found|does not exist)|"
        r"No such file or directory: .*\.(jsonl?|parquet|csv)",
        FailureReason.MISSING_DATASET,
    ),
)
# Signals by which a program ends itself; whoever else sends one sends another.
_OWN_SIGNALS = {signal.SIGABRT, signal.SIGSEGV, signal.SIGILL, signal.SIGFPE, signal.SIGBUS, signal.SIGTRAP}
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), reason) for pattern, reason in _IN_LOG)


def outcome_of(exit_record: Mapping[str, Any], log_end: str) -> Outcome:
    """The outcome of an attempt from its exit.json and the end of its log."""
    ending, code = exit_record["ending"], exit_record["exit_code"]
    if ending == "cancelled":
        return Outcome(Ending.CANCELLED, exit_code=code)
    if ending == "lease_expired":
        return Outcome(Ending.LOST, FailureReason.LEASE_EXPIRED, code)
    if ending == "stalled":
        return Outcome(Ending.LOST, FailureReason.HEARTBEAT_STALE, code)
    if ending == "killed":
        return Outcome(Ending.FAILED, FailureReason.PREEMPTED, code, "the runner was told to end")
    if ending == "input_unavailable":
        return Outcome(Ending.FAILED, FailureReason.INPUT_UNAVAILABLE, code, last_line(log_end))
    if code == 0:
        return Outcome(Ending.COMPLETED, exit_code=0)
    return Outcome(Ending.FAILED, reason_of(code, log_end), code, last_line(log_end))


def reason_of(code: int, log_end: str) -> FailureReason:
    """The reason behind exit code `code` (negative: a signal).

    >>> reason_of(1, "torch.OutOfMemoryError: CUDA out of memory.").value
    'out_of_gpu_memory'
    """
    if code in REASON_OF_EXIT_CODE:
        return REASON_OF_EXIT_CODE[code]
    for pattern, reason in _PATTERNS:
        if pattern.search(log_end):
            return reason
    number = -code if code < 0 else code - 128
    if number in _OWN_SIGNALS or not (code < 0 or code in (137, 143)):
        return FailureReason.ERROR
    return FailureReason.KILLED


def last_line(log_end: str) -> str | None:
    """The last line of a log that says something, cut to 300 characters."""
    lines = [line.strip() for line in log_end.splitlines() if line.strip()]
    return lines[-1][:300] if lines else None
