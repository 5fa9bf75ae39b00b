"""The files of a segment: what each contains, how it is written and how it is read back."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from questloop.episodes.plain import may_be_odd, plain
from questloop.episodes.png import encode_png
from questloop.episodes.segment import OBSERVATIONS, STATES, Manifest, ManifestFile, Segment
from questloop.episodes.trace import MODES, Floats
from questloop.errors import BadDataError
from questloop.game.actions import ACTIONS
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.state import decode_all
from questloop.storage.keys import frame_name
from questloop.storage.store import sha256_hex

_ZIP_LEVEL = 1
_LARGEST_ARRAY = 64 * 2**20  # bytes


@dataclass(frozen=True)
class Recording:
    """What all segments of a run's epoch have in common."""

    profile: Profile
    rom: Rom
    frame_skip: int
    observation_version: int
    reward_model_sha256: str | None = None


def encode(segment: Segment, recording: Recording) -> tuple[dict[str, bytes], Manifest]:
    """The files of a segment by name, and its manifest."""
    files = {frame_name(step): encode_png(picture) for step, picture in sorted(segment.frames.items())}
    files[STATES] = encode_states(segment, recording)
    files[OBSERVATIONS] = encode_observations(segment.obs)
    manifest = Manifest(
        segment_id=str(segment.id),
        episode_id=str(segment.id.episode),
        run=segment.id.episode.run,
        epoch=segment.epoch,
        fence=segment.id.fence,
        index=segment.id.index,
        first_step=segment.first_step,
        frames=segment.length,
        pngs=len(segment.frames),
        last=segment.last,
        frame_skip=recording.frame_skip,
        rom_sha256=recording.rom.sha256,
        layout_hash=recording.profile.layout.hash,
        observation_version=recording.observation_version,
        observation_size=segment.obs.shape[1],
        reward_model_sha256=recording.reward_model_sha256,
        seed=segment.start.seed,
        start_state=segment.start.state,
        raw_return=segment.raw_return,
        rewards=segment.rewards,
        novelty=segment.novelty,
        milestones=segment.milestones,
        files=tuple(
            ManifestFile(name=name, sha256=sha256_hex(data), size=len(data))
            for name, data in sorted(files.items())
        ),
    )
    return files, manifest


def encode_states(segment: Segment, recording: Recording) -> bytes:
    """`states.jsonl`: a line per recorded frame; reward parts of 0 are left out."""
    encode_line = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    actions = [ACTIONS[index].name for index in segment.action.tolist()]
    rewards = segment.reward_parts.tolist()
    lines = []
    for row, state in enumerate(decode_all(segment.taps, recording.profile)):
        step = segment.first_step + row
        lines.append(
            encode_line(
                {
                    "step": step,
                    "frame": (step + 1) * recording.frame_skip,
                    "action": actions[row],
                    "reward": _nonzero(segment.reward_names, rewards[row]),
                    "state": state.to_json(),
                    "mode": MODES[segment.mode[row]],
                    "png": frame_name(step) if step in segment.frames else None,
                }
            )
        )
    return "\n".join(lines).encode() + b"\n"


def decode_states(data: bytes, key: str) -> list[dict[str, Any]]:
    """The lines of `states.jsonl`, texts in them made `plain`; `BadDataError` names key and line of what is
    none."""
    lines = data.split(b"\n")
    if lines.pop() != b"":
        raise BadDataError(f"{key}: cut off in line {len(lines) + 1}")
    states = []
    for number, line in enumerate(lines, 1):
        try:
            state = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise BadDataError(f"{key}: line {number}: {error}") from None
        if not isinstance(state, dict) or not isinstance(state.get("step"), int) or "state" not in state:
            raise BadDataError(f"{key}: line {number}: no step and state in it")
        states.append(state)
    return plain(states) if may_be_odd(data) else states


def encode_observations(obs: Floats) -> bytes:
    """`observations.npz`: `obs` f32[L, D]. The same array gives the same bytes."""
    array, file = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array(array, np.ascontiguousarray(obs, np.float32), allow_pickle=False)
    with zipfile.ZipFile(file, "w") as archive:
        undated = zipfile.ZipInfo("obs.npy")
        archive.writestr(undated, array.getvalue(), zipfile.ZIP_DEFLATED, _ZIP_LEVEL)
    return file.getvalue()


def decode_observations(data: bytes, key: str) -> Floats:
    """f32[L, D]; `BadDataError` for anything else. Never unpickles."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.getinfo("obs.npy").file_size > _LARGEST_ARRAY:
                raise BadDataError(f"{key}: obs is larger than {_LARGEST_ARRAY >> 20} MB")
            with archive.open("obs.npy") as entry:
                obs = np.lib.format.read_array(io.BytesIO(entry.read(_LARGEST_ARRAY)), allow_pickle=False)
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        OSError,
        EOFError,
        RuntimeError,  # encrypted, or packed in another way
        zlib.error,
    ) as error:
        raise BadDataError(f"{key}: not observations: {error}") from None
    if obs.ndim != 2 or obs.dtype != np.float32 or not np.isfinite(obs).all():
        raise BadDataError(
            f"{key}: obs is {obs.dtype}{list(obs.shape)}; finite float32 [frames, size] is meant"
        )
    return obs


def _nonzero(names: tuple[str, ...], values: list[float]) -> Mapping[str, float]:
    return {name: round(value, 6) for name, value in zip(names, values, strict=True) if value}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
