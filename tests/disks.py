"""A small file system of its own, which fills up, runs out of inodes, or can only be read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A mounted tmpfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, leave_kb: int = 0) -> None:
        """Leave so much room, all but nothing."""
        with open(self._filler, "wb", buffering=0) as file:
            for size in (2**16, 2**12):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue
            if leave_kb:
                file.truncate(os.fstat(file.fileno()).st_size - 1024 * leave_kb)

    def use_up_inodes(self) -> None:
        """No file more."""
        found = os.statvfs(self.root)
        self.remount(f"nr_inodes={found.f_files - found.f_ffree}")

    def make_room(self) -> None:
        """Undo what was done to it."""
        self.remount("rw,nr_inodes=100000")
        self._filler.unlink(missing_ok=True)

    def remount(self, options: str) -> None:
        """Change the file system under whoever uses it."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.root)], check=True)


@contextmanager
def small_disk(root: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of so many megabytes; the test is skipped where none may be mounted."""
    root.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"]
    try:
        mounted = subprocess.run(["mount", *options, str(root)], capture_output=True, check=False).returncode
    except FileNotFoundError:
        mounted = 1
    if mounted:
        pytest.skip("mounting a file system needs root")
    try:
        yield Disk(root)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)
