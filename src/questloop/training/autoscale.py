"""Chooses the numbers of runners and emulators (`RAY_WORKERS=auto`, `ENVS_PER_WORKER=auto`)."""

from __future__ import annotations

from dataclasses import dataclass

from questloop.machine import machine_cores, machine_memory_mb
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


def choose_layout(
    settings: TrainingSettings, cores: int | None = None, memory_mb: float | None = None
) -> Layout:
    """One runner per core, and as many emulators as memory, the batch and vectorisation's gain allow.

    Cores and free memory are this machine's where they are not given. More than 32 emulators per runner gain
    nothing; rollouts shorter than 16 steps would leave little to bootstrap from.

    >>> choose_layout(TrainingSettings(), cores=2, memory_mb=8000)
    Layout(runners=2, slots_per_runner=32, rollout_steps=64)
    """
    cores = machine_cores() if cores is None else cores
    memory_mb = machine_memory_mb() if memory_mb is None else memory_mb
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
