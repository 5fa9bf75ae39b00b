"""Finds whole checkpoints of a run, and checks that a folder holds the run that is asked for.

A checkpoint folder counts when `complete.json` is in it, which is written last and lists every file with its
size: whatever was cut off while it was written is passed over.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from questloop.errors import UsageError

MARKER = "complete.json"
RUN_FILE = "run.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def mark_complete(folder: Path) -> None:
    """Write the marker of a folder whose files are all there, after they reached the disk."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MARKER:
            files[path.relative_to(folder).as_posix()] = path.stat().st_size
            _fsync(path)
    write_json(folder / MARKER, {"files": files})


def is_whole(folder: Path) -> bool:
    """Whether the marker is there and every file that it lists has its size."""
    try:
        files = json.loads((folder / MARKER).read_text("utf-8"))["files"]
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def newest_whole(output_dir: Path) -> Path | None:
    """The checkpoint with the highest step that is whole, or None."""
    return max((folder for folder in _checkpoints(output_dir) if is_whole(folder)), key=step_of, default=None)


def drop_broken(output_dir: Path) -> list[Path]:
    """Remove checkpoints that are not whole and return them: left behind they would crowd out good ones."""
    broken = [folder for folder in _checkpoints(output_dir) if not is_whole(folder)]
    for folder in broken:
        shutil.rmtree(folder)
    return broken


def step_of(folder: Path) -> int:
    """The step in a checkpoint's name.

    >>> step_of(Path("run/checkpoint-150"))
    150
    """
    match = _NAME.fullmatch(folder.name)
    if match is None:
        raise ValueError(f"{folder} is not named checkpoint-N")
    return int(match[1])


def check_same_run(output_dir: Path, run: Mapping[str, Any]) -> None:
    """Write `run.json`, or check that the one there agrees. Raises `UsageError` naming what differs."""
    path = output_dir / RUN_FILE
    if not path.exists():
        output_dir.mkdir(parents=True, exist_ok=True)
        write_json(path, run)
        return
    before = json.loads(path.read_text("utf-8"))
    different = [
        f"{key} {before.get(key)!r} -> {value!r}" for key, value in run.items() if before.get(key) != value
    ]
    if different:
        raise UsageError(
            f"--output_dir {output_dir} holds a run with other settings ({'; '.join(different)}): "
            "take another folder, or remove this one"
        )


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a small document so that it is there in full or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=1, sort_keys=True), "utf-8")
    _fsync(temporary)
    temporary.replace(path)


def _checkpoints(output_dir: Path) -> list[Path]:
    if not output_dir.is_dir():
        return []
    return [path for path in output_dir.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
