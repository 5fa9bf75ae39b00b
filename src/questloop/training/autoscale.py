"""Chooses the numbers of runners and emulators (`RAY_WORKERS=auto`, `ENVS_PER_WORKER=auto`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from questloop.settings import TrainingSettings

EMULATOR_MB = 30
RUNNER_MB = 450  # a Ray worker with torch
RESERVE_MB = 2000  # learner, object store, the rest of the machine
MOST_SLOTS = 32


@dataclass(frozen=True)
class Layout:
    """How emulators are spread, and how long a rollout is."""

    runners: int  # 0: the one that plays is in this process
    slots_per_runner: int
    rollout_steps: int

    @property
    def slots(self) -> int:
        """All emulators."""
        return max(1, self.runners) * self.slots_per_runner

    @property
    def batch_size(self) -> int:
        """Steps per update: BATCH_SIZE, rounded up to whole vector steps."""
        return self.slots * self.rollout_steps


def choose_layout(settings: TrainingSettings, cores: int, memory_mb: float) -> Layout:
    """One runner a core, and as many emulators as memory, the batch and vectorisation's gain allow.

    More than 32 emulators per runner gain nothing; rollouts shorter than 16 steps would leave little to
    bootstrap from.

    >>> choose_layout(TrainingSettings(), cores=2, memory_mb=8000)
    Layout(runners=2, slots_per_runner=32, rollout_steps=64)
    """
    runners = max(1, cores) if settings.ray_workers == "auto" else settings.ray_workers
    if settings.envs_per_worker == "auto":
        players = max(1, runners)
        room_mb = (memory_mb - RESERVE_MB) / players - RUNNER_MB
        most = min(MOST_SLOTS, int(room_mb // EMULATOR_MB), settings.batch_size // (16 * players))
        slots = max(1, most)
        while slots > 1 and settings.batch_size % (players * slots):
            slots -= 1
        if slots < most // 2:
            slots = max(1, most)
    else:
        slots = settings.envs_per_worker
    return Layout(runners, slots, -(-settings.batch_size // (max(1, runners) * slots)))


def machine_cores() -> int:
    """Cores this process may use, by affinity and by the container's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        cores = min(cores, max(1, int(quota[0]) // int(quota[1])))
    return cores


def machine_memory_mb() -> float:
    """Memory that is free for us, MB, by the kernel and by the container's limit."""
    available = next(
        (
            int(line.split()[1]) / 1024
            for line in _read("/proc/meminfo").splitlines()
            if line.startswith("MemAvailable")
        ),
        4096.0,
    )
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit():
        used = _read("/sys/fs/cgroup/memory.current").strip()
        available = min(available, (int(limit) - int(used or 0)) / 2**20)
    return available


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
