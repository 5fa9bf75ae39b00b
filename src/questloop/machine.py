"""What this machine gives us: cores and memory, by the kernel and by control groups, and its processor."""

from __future__ import annotations

import os
import platform
from pathlib import Path, PurePosixPath

ROOT = Path("/")
"""below which `proc` and `sys` are read"""


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


def processor_name(root: Path = ROOT) -> str | None:
    """Its name, as Linux has it; elsewhere its architecture."""
    lines = _read(root / "proc/cpuinfo").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine() or None


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
