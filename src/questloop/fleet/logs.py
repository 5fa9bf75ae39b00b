"""The logs of jobs on this machine, one file per job, one attempt after the other.

The position that an attempt's log has been read to is told from the file's own size, so a crash loses nothing
and repeats nothing. Where attempts begin stands in a small file beside it. Of an attempt that prints without
end the first `CAP` bytes are kept and the last `TAIL`, with a line in between that says what is left out.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

CAP = 64 << 20
TAIL = 1 << 20


class JobLog:
    """The local copy of a job's log; safe against a second process that copies the same attempt.

    Files are readable by their owner alone. What cannot be written raises `OSError`.
    """

    def __init__(self, folder: Path, job_id: str) -> None:
        self.path = folder / f"{job_id}.log"
        self._index = folder / f".{job_id}.attempts"

    def position(self, attempt: int) -> int:
        """How much of the attempt's log is here or left out, bytes."""
        place = self._places().get(str(attempt))
        return 0 if place is None else max(place[1], place[1] + self._size() - place[0])

    def append(self, attempt: int, position: int, data: bytes, machine: str) -> bool:
        """Add what follows `position`; False, with nothing written, if the copy stands elsewhere by now."""
        with self._locked():
            places = self._places()
            if str(attempt) not in places:
                if any(int(known) > attempt for known in places):
                    return False  # a late reader of an attempt that a newer one has followed
                self._begin(attempt, machine, places)
            if self.position(attempt) != position:
                return False
            with self._open() as file:
                file.write(data)
            return True

    def leave_out(self, attempt: int, position: int, until: int, machine: str) -> bool:
        """Go on at `until`, with a mark in place of what lies between; False if the copy stands elsewhere."""
        with self._locked():
            places = self._places()
            if str(attempt) not in places or self.position(attempt) != position:
                return False
            with self._open() as file:
                left = until - position
                file.write(f"\n=== {left} bytes left out; the whole log lies on {machine} ===\n".encode())
            places[str(attempt)] = (self._size(), until)
            self._write_places(places)
            return True

    def mark_missing(self, reason: str) -> None:
        """End the copy with a line that says why the rest is missing, over its own end where nothing fits."""
        line = f"\n=== the rest of the log is missing here: {reason} ===\n".encode()
        with suppress(OSError), self._locked():
            try:
                with self._open() as file:
                    file.write(line)
            except OSError:
                if self._size() > len(line):
                    with self.path.open("r+b") as file:
                        file.seek(-len(line), os.SEEK_END)
                        file.write(line)

    def end(self, limit: int = 16_384) -> str:
        """The last `limit` bytes, as text."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self._size() - limit))
                return file.read(limit).decode("utf-8", "replace")
        except OSError:
            return ""

    def _begin(self, attempt: int, machine: str, places: dict[str, tuple[int, int]]) -> None:
        before = self._size()
        try:
            with self._open() as file:
                file.write(f"=== attempt {attempt} on {machine} ===\n".encode())
            places[str(attempt)] = (self._size(), 0)
            self._write_places(places)
        except OSError:  # a full disk: the next try begins from here
            with suppress(OSError):
                os.truncate(self.path, before)
            raise

    def _places(self) -> dict[str, tuple[int, int]]:
        """By attempt: where in this file its log begins or goes on, and how far its own log is by then."""
        try:
            known = json.loads(self._index.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        # Files of version 0.1.0 hold the beginning alone.
        return {name: (place, 0) if isinstance(place, int) else tuple(place) for name, place in known.items()}

    def _write_places(self, places: dict[str, tuple[int, int]]) -> None:
        partial = self._index.with_name(f"{self._index.name}.part")
        with open(partial, "w", opener=_private) as file:
            file.write(json.dumps(places))
        partial.replace(self._index)

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _open(self) -> IO[bytes]:
        return open(self.path, "ab", opener=_private)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(f"{self._index}.lock", "w", opener=_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
