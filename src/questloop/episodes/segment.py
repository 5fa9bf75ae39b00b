"""Segments, up to 300 recorded frames of an episode, and the JSON documents that describe them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from questloop.episodes.takeover import Takeover
from questloop.episodes.trace import Bytes, EpisodeStart, Floats
from questloop.errors import BadDataError, reason_of
from questloop.game.screen import Screen
from questloop.storage.keys import EpisodeId, SegmentId
from questloop.storage.schema import NEWEST, SchemaVersion

SEGMENT_FRAMES = 300
"""Most recorded frames of a segment; `spans.segment_steps` says how many a run's have."""

NOVELTY_REWARDS = ("room", "tile")  # reward parts that pay for what is new

STATES = "states.jsonl"
OBSERVATIONS = "observations.npz"

_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _segment_id(text: str) -> str:
    return _checked(SegmentId, text)


def _episode_id(text: str) -> str:
    return _checked(EpisodeId, text)


def _checked(kind: type[SegmentId] | type[EpisodeId], text: str) -> str:
    try:
        return str(kind.parse(text))
    except BadDataError as error:
        raise ValueError(str(error)) from None


_SegmentIdText = Annotated[str, AfterValidator(_segment_id)]
_EpisodeIdText = Annotated[str, AfterValidator(_episode_id)]


class EpisodeOutcome(StrEnum):
    """How an episode ended, as far as it did."""

    RUNNING = "running"
    TERMINATED = "terminated"
    TRUNCATED = "truncated"
    ABANDONED = "abandoned"  # its runner was lost


@dataclass
class Segment:
    """`L` recorded frames of one episode in memory; see `Trace` for what a row is."""

    id: SegmentId
    epoch: int  # in which it was completed
    first_step: int  # of the episode
    last: bool  # the episode ends with it; only then may it be shorter than the others
    action: Bytes  # [L]
    mode: Bytes  # [L]
    taps: Bytes  # [L, K]
    obs: Floats  # [L, D]
    reward_names: tuple[str, ...]
    reward_parts: Floats  # [L, P]
    milestones: tuple[str, ...]  # reached for the first time in it
    frames: dict[int, Screen] = field(default_factory=dict)  # by step of the episode
    start: EpisodeStart = field(default_factory=EpisodeStart)

    @property
    def length(self) -> int:
        """`L`, the number of recorded frames."""
        return len(self.action)

    @property
    def steps(self) -> range:
        """The episode's steps it covers."""
        return range(self.first_step, self.first_step + self.length)

    @property
    def rewards(self) -> dict[str, float]:
        """The sum of each reward part."""
        sums = self.reward_parts.sum(axis=0, dtype=np.float64)
        return {name: round(float(value), 6) for name, value in zip(self.reward_names, sums, strict=True)}

    @property
    def raw_return(self) -> float:
        """The sum of all reward parts."""
        return round(float(self.reward_parts.sum(dtype=np.float64)), 6)

    @property
    def novelty(self) -> float:
        """What it earned for rooms and tiles that were new in the episode."""
        rewards = self.rewards
        return max(0.0, sum(rewards.get(name, 0.0) for name in NOVELTY_REWARDS))


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Document(_Part):
    schema_version: SchemaVersion = NEWEST


_Doc = TypeVar("_Doc", bound=_Document)


class ManifestFile(_Part):
    """A file of the segment; `name` is relative to the segment's folder."""

    name: str = Field(pattern=r"^(states\.jsonl|observations\.npz|frames/[0-9]{6,9}\.png)$")
    sha256: _Sha256
    size: int = Field(ge=0)


class Manifest(_Document):
    """`manifest.json`, written last: a segment is complete when it exists."""

    segment_id: _SegmentIdText
    episode_id: _EpisodeIdText
    run: str
    epoch: int = Field(ge=0, description="in which the segment was completed")
    fence: int = Field(ge=0)
    index: int = Field(ge=0, description="of the segment in its episode")
    first_step: int = Field(ge=0)
    frames: int = Field(ge=1, le=SEGMENT_FRAMES, description="recorded frames: lines of states.jsonl")
    pngs: int = Field(ge=0)
    last: bool = Field(description="the episode ends with it")
    frame_skip: int = Field(ge=1)
    rom_sha256: _Sha256
    layout_hash: str
    observation_version: int
    observation_size: int
    reward_model_sha256: _Sha256 | None = Field(
        description="of the model that shaped the training; None: none"
    )
    seed: int | None
    start_state: str | None
    raw_return: FiniteFloat = Field(description="sum of the unshaped reward parts")
    rewards: dict[str, FiniteFloat] = Field(description="sum of each unshaped reward part")
    novelty: FiniteFloat = Field(ge=0, description="rooms and tiles first seen in the episode; order matters")
    milestones: tuple[str, ...]
    files: tuple[ManifestFile, ...]


class SegmentEntry(_Part):
    """A segment as its episode lists it."""

    segment_id: _SegmentIdText
    epoch: int = Field(ge=0, description="in which the segment was completed")
    index: int = Field(ge=0)
    first_step: int = Field(ge=0)
    frames: int = Field(ge=1, le=SEGMENT_FRAMES)
    raw_return: FiniteFloat
    milestones: tuple[str, ...] = ()
    exported: bool = False


class EpisodeRecord(_Document):
    """`episode.json`. It is written again at the end of every epoch that the episode lives through."""

    id: _EpisodeIdText
    run: str
    epochs: tuple[int, ...] = Field(min_length=1, description="epochs touched, rising")
    slot: int = Field(ge=0)
    seed: int | None
    start_state: str | None
    steps: int = Field(ge=0)
    raw_return: FiniteFloat = Field(description="of the environment's own, unshaped reward")
    outcome: EpisodeOutcome
    segment_steps: int = Field(
        SEGMENT_FRAMES, ge=1, le=SEGMENT_FRAMES, description="recorded frames of its whole segments"
    )
    milestones: dict[str, int] = Field(description="name -> step of the episode where it first held")
    segments: tuple[SegmentEntry, ...] = Field(description="in order, those not exported too")
    takeovers: tuple[Takeover, ...] = Field((), description="in order, those that are over")


def parse_manifest(data: bytes, key: str) -> Manifest:
    """Read `manifest.json`; `BadDataError` names the key and the fault."""
    return _parse(Manifest, data, key)


def parse_record(data: bytes, key: str) -> EpisodeRecord:
    """Read `episode.json`; `BadDataError` names the key and the fault."""
    return _parse(EpisodeRecord, data, key)


def _parse(kind: type[_Doc], data: bytes, key: str) -> _Doc:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise BadDataError(f"{key}: {reason_of(error)}") from None


def milestone_names(mask: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the bits set in `mask`."""
    return tuple(name for bit, name in enumerate(names) if mask >> bit & 1)
