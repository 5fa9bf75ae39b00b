"""Chooses the numbers of runners and emulators (`RAY_WORKERS=auto`, `ENVS_PER_WORKER=auto`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from questloop.settings import TrainingSettings

EMULATOR_MB = 30
RUNNER_MB = 450  # a Ray worker with torch
RESERVE_MB = 2000  # learner, object store, the rest of the machine
MOST_SLOTS = 32
ROOT = Path("/")
"""below which `proc` and `sys` are read"""


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
    """One runner per core, and as many emulators as memory, the batch and vectorisation's gain allow.

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


def machine_cores(root: Path = ROOT) -> int:
    """Cores this process may use, by affinity and by the CPU quota of its control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in _groups(root, "cpu"):
        quota, _, period = _read(group / "cpu.max").partition(" ")  # version 2; below, version 1
        quota = quota or _read(group / "cpu.cfs_quota_us")
        period = period or _read(group / "cpu.cfs_period_us") or "100000"
        if quota.isdigit() and period.isdigit() and int(period):
            cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def machine_memory_mb(root: Path = ROOT) -> float:
    """Memory that is free for us, MB, by the kernel and by the limits of its control groups."""
    available = next(
        (
            int(line.split()[1]) / 1024
            for line in _read(root / "proc/meminfo").splitlines()
            if line.startswith("MemAvailable")
        ),
        4096.0,
    )
    for group in _groups(root, "memory"):
        limit = _read(group / "memory.max") or _read(group / "memory.limit_in_bytes")
        if limit.isdigit():
            available = min(available, (int(limit) - _used(group)) / 2**20)
    return max(available, 0.0)


def _used(group: Path) -> int:
    """Bytes in use; pages of files that the kernel would drop before it lacks memory are not."""
    used = _read(group / "memory.current") or _read(group / "memory.usage_in_bytes") or "0"
    stat = dict(line.split(" ", 1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    cache = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
    return max(int(used) - int(cache), 0) if used.isdigit() and cache.isdigit() else 0


def _groups(root: Path, controller: str) -> list[Path]:
    """The folders of this process's control group and of those around it, of both versions of cgroups."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines() or ["0::/"]:
        _, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup"
        if controllers:
            mount = next(
                (mount / name for name in (controllers, controller) if (mount / name).is_dir()), mount
            )
        inside = PurePosixPath("/", path).relative_to("/")
        if ".." not in inside.parts:
            found += [mount / inside, *(mount / each for each in inside.parents)]
        else:
            found.append(mount)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
