"""Files that a command writes outside of a store: whole or not at all, and in one line where that fails."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from questloop.errors import DiskFullError, QuestloopError, UsageError

FULL = (errno.ENOSPC, errno.EDQUOT)
MAKE_ROOM = "free space (or inodes, where `df -i` shows none) and run it again"


def write_file(path: Path, data: bytes | str) -> None:
    """Write a file in place of one that is there, and its folder where that is missing.

    A device or a pipe is written to as it is.
    """
    data = data.encode() if isinstance(data, str) else data
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            part.write_bytes(data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def written(path: Path) -> Iterator[None]:
    """Turn the system's errors about writing `path` into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFullError(f"cannot write {path}: {error.strerror}; {MAKE_ROOM}") from None
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}; name a place that can be written"
        ) from None


def of_the_disk(error: OSError) -> QuestloopError | None:
    """Ours for an error of a disk that is full or only read, wherever a library met it; None for others."""
    if error.errno not in (*FULL, errno.EROFS):
        return None
    place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    where = place or f"the output or {tempfile.gettempdir()}, which TMPDIR names"
    mend = "mount it for writing, or name another place" if error.errno == errno.EROFS else MAKE_ROOM
    return DiskFullError(f"cannot write {where}: {error.strerror}; {mend}")
