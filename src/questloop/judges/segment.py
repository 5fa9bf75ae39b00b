"""What the judges need of a segment. The room of episodes hands in objects that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class SegmentInfo:
    """A segment before its states are loaded. Selection may use all of it; judges see none of it."""

    segment_id: str
    episode_id: str
    novelty: float = 0.0
    """how much was new in it, for example rooms first seen in the episode; only its order matters"""
    raw_return: float = 0.0
    """unshaped reward collected in it; only its order matters"""


class Segment(Protocol):
    """A loaded segment."""

    @property
    def segment_id(self) -> str: ...

    @property
    def episode_id(self) -> str: ...

    @property
    def states(self) -> Sequence[Mapping[str, Any]]:
        """Lines of states.jsonl in order; their reward parts are removed before a judge sees them."""

    def png(self, step: int) -> bytes | None:
        """The picture stored for `step`, None where there is none."""
