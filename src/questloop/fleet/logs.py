"""The logs of jobs on this machine, one file per job, one attempt after the other.

The position that an attempt's log has been read to is the file's own size, so a crash loses nothing and
repeats nothing. Where attempts begin stands in a small file beside it.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class JobLog:
    """The local copy of a job's log; safe against a second process that copies the same attempt."""

    def __init__(self, folder: Path, job_id: str) -> None:
        self.path = folder / f"{job_id}.log"
        self._index = folder / f".{job_id}.attempts"

    def position(self, attempt: int) -> int:
        """How much of the attempt's log is here, bytes."""
        start = self._starts().get(str(attempt))
        return 0 if start is None else max(0, self._size() - start)

    def append(self, attempt: int, position: int, data: bytes, machine: str) -> bool:
        """Add what follows `position`; False, with nothing written, if the copy stands elsewhere by now."""
        with self._locked():
            starts = self._starts()
            if str(attempt) not in starts:
                if any(int(known) > attempt for known in starts):
                    return False  # a late reader of an attempt that a newer one has followed
                self._begin(attempt, machine, starts)
            if self.position(attempt) != position:
                return False
            with self.path.open("ab") as file:
                file.write(data)
            return True

    def end(self, limit: int = 16_384) -> str:
        """The last `limit` bytes, as text."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self._size() - limit))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def _begin(self, attempt: int, machine: str, starts: dict[str, int]) -> None:
        with self.path.open("ab") as file:
            file.write(f"=== attempt {attempt} on {machine} ===\n".encode())
        starts[str(attempt)] = self._size()
        partial = self._index.with_name(f"{self._index.name}.part")
        partial.write_text(json.dumps(starts))
        partial.replace(self._index)

    def _starts(self) -> dict[str, int]:
        try:
            return json.loads(self._index.read_text())
        except FileNotFoundError:
            return {}

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{self._index}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
