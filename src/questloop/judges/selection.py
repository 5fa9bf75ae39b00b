"""Selects the segments that a pass judges when a budget leaves some out.

Policy: segments are put into terciles of novelty and of return, nine cells; cells are served in turn, so a
rare kind of play is judged as often as the common one; within a cell the episode judged least so far comes
first, and a seeded hash decides among equals. The same segments, budget and seed give the same choice.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

POLICY = "novelty terciles x return terciles in turn, least judged episode first, seeded"
TERCILES = 3


@dataclass(frozen=True)
class SegmentInfo:
    """A segment before its states are loaded. Selection may use all of it; judges see none of it."""

    segment_id: str
    episode_id: str
    novelty: float = 0.0
    """how much was new in it, for example rooms first seen in the episode; only its order matters"""
    raw_return: float = 0.0
    """unshaped reward collected in it; only its order matters"""


def select(segments: Sequence[SegmentInfo], budget: int | Literal["all"], seed: int) -> list[SegmentInfo]:
    """At most `budget` of `segments`, ordered by segment id."""
    if budget == "all" or budget >= len(segments):
        return sorted(segments, key=lambda info: info.segment_id)
    cells = _cells(segments, seed)
    judged: Counter[str] = Counter()
    chosen: list[SegmentInfo] = []
    while len(chosen) < budget:
        for cell in cells:
            if cell and len(chosen) < budget:
                info = _least_judged(cell, judged)
                judged[info.episode_id] += 1
                chosen.append(info)
    return sorted(chosen, key=lambda info: info.segment_id)


_Entry = tuple[int, str, SegmentInfo]


def _cells(segments: Sequence[SegmentInfo], seed: int) -> list[list[_Entry]]:
    """Heaps by (times the episode was judged when pushed, hash), rarest novelty first."""
    novelty = _terciles(segments, lambda info: info.novelty)
    returns = _terciles(segments, lambda info: info.raw_return)
    cells: dict[tuple[int, int], list[_Entry]] = {}
    for info in segments:
        place = (novelty[info.segment_id], returns[info.segment_id])
        cells.setdefault(place, []).append((0, shuffled(seed, info.segment_id), info))
    for cell in cells.values():
        heapq.heapify(cell)
    return [cells[place] for place in sorted(cells, reverse=True)]


def _terciles(segments: Sequence[SegmentInfo], value: Callable[[SegmentInfo], float]) -> dict[str, int]:
    """Tercile by segment id; equal values share one."""
    ranked = sorted(value(info) for info in segments)
    first = {number: place for place, number in reversed(list(enumerate(ranked)))}
    return {info.segment_id: first[value(info)] * TERCILES // len(segments) for info in segments}


def _least_judged(cell: list[_Entry], judged: Counter[str]) -> SegmentInfo:
    while True:
        count, key, info = heapq.heappop(cell)
        if judged[info.episode_id] == count:
            return info
        heapq.heappush(cell, (judged[info.episode_id], key, info))


def shuffled(seed: int, *names: str) -> str:
    """A key by which to sort: an order as good as random, alike on every machine."""
    return hashlib.sha256(":".join([str(seed), *names]).encode()).hexdigest()
