"""The recorded inputs of an epoch's episodes, from which any of them can be played again.

A state and the buttons pressed from there give the same game again. Inputs take two bytes per step before
compression, pictures a thousand times as much.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from questloop.episodes.segment import SEGMENT_FRAMES, EpisodeOutcome
from questloop.episodes.trace import Bytes
from questloop.errors import BadDataError
from questloop.game.batch import parts
from questloop.storage import keys
from questloop.storage.store import NotFound, Store

_SCHEMA_VERSION = 2
"""1: no scripts, and read as such."""

_DAMAGED = (
    ValueError,
    KeyError,
    TypeError,
    OSError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""what numpy and zipfile raise of a file that is none"""


@dataclass(frozen=True)
class Replay:
    """An episode as its inputs, from its start as far as it was played."""

    episode_id: str
    start_state: str | None  # None: power-on
    action: Bytes  # [L]
    mode: Bytes  # [L], index into MODES
    reloads: tuple[int, ...]  # steps before which the state was saved and restored: ends of epochs
    raw_return: float
    outcome: EpisodeOutcome
    milestones: dict[str, int] = field(default_factory=dict)  # name -> step
    segment_steps: int = SEGMENT_FRAMES  # of its whole segments
    last_taps: str = ""  # SHA-256 of the memory row after the last step
    scripts: Mapping[int, bytes] = field(default_factory=dict)  # by step, as in a trace

    @property
    def steps(self) -> int:
        return len(self.action)

    def inputs(self, step: int, frames: int) -> list[tuple[int, int]]:
        """The buttons of a step of `frames` frames and how long each was held; none: the game stood still."""
        script = self.scripts.get(step)
        if script is None:
            return [(int(self.action[step]), frames)]
        return list(zip(script, parts(frames), strict=False))


def scripts_to_json(scripts: Mapping[int, bytes]) -> dict[str, str]:
    """By step, the buttons as hexadecimal bytes."""
    return {str(step): script.hex() for step, script in scripts.items()}


def scripts_from_json(document: Mapping[str, str]) -> dict[int, bytes]:
    """Read `scripts_to_json`; raises `ValueError`."""
    return {int(step): bytes.fromhex(script) for step, script in document.items()}


def encode_replays(replays: Iterable[Replay]) -> bytes:
    """An `.npz` without pickle: `action` and `mode` of all episodes in a row, `meta` as JSON."""
    replays = list(replays)
    meta = {
        "schema_version": _SCHEMA_VERSION,
        "episodes": [
            {
                "episode_id": item.episode_id,
                "start_state": item.start_state,
                "steps": item.steps,
                "reloads": item.reloads,
                "raw_return": item.raw_return,
                "outcome": item.outcome.value,
                "milestones": item.milestones,
                "segment_steps": item.segment_steps,
                "last_taps": item.last_taps,
                "scripts": scripts_to_json(item.scripts),
            }
            for item in replays
        ],
    }
    none = [np.zeros(0, np.uint8)]
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        action=np.concatenate(none + [item.action for item in replays]),
        mode=np.concatenate(none + [item.mode for item in replays]),
        meta=np.array(json.dumps(meta, allow_nan=False)),
    )
    return buffer.getvalue()


def decode_replays(data: bytes, key: str) -> tuple[Replay, ...]:
    """Read `encode_replays`; `BadDataError` names the key and the fault."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            action, mode, meta = arrays["action"], arrays["mode"], json.loads(str(arrays["meta"]))
        if meta["schema_version"] > _SCHEMA_VERSION:
            raise ValueError(f"schema version {meta['schema_version']} is newer than this release reads")
        ends = np.cumsum([item["steps"] for item in meta["episodes"]], dtype=np.int64).tolist()
        if len(action) != len(mode) or len(action) != (ends[-1] if ends else 0):
            raise ValueError("its inputs are not as many as its steps")
        return tuple(
            _replay(item, action[end - item["steps"] : end], mode[end - item["steps"] : end])
            for item, end in zip(meta["episodes"], ends, strict=True)
        )
    except _DAMAGED as error:
        raise BadDataError(f"{key}: not an epoch's inputs: {error}") from None


def read_replays(store: Store, epoch: int) -> tuple[Replay, ...]:
    """The episodes that an epoch touched, as far as they were played at its end."""
    key = keys.replays(epoch)
    try:
        return decode_replays(store.get(key), key)
    except NotFound:
        raise NotFound(f"store {store.url}: epoch {epoch} has no recorded inputs ({key})") from None


def _replay(item: dict[str, Any], action: Bytes, mode: Bytes) -> Replay:
    return Replay(
        episode_id=str(item["episode_id"]),
        start_state=item["start_state"],
        action=action,
        mode=mode,
        reloads=tuple(item["reloads"]),
        raw_return=float(item["raw_return"]),
        outcome=EpisodeOutcome(item["outcome"]),
        milestones=dict(item["milestones"]),
        segment_steps=int(item.get("segment_steps", SEGMENT_FRAMES)),
        last_taps=str(item["last_taps"]),
        scripts=scripts_from_json(item.get("scripts", {})),
    )
