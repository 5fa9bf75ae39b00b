"""Selects the segments that are exported when a budget leaves some out.

Strata are (episode, novelty, return). Each keeps its segments of the highest keys, and all strata together
the budget: they are filled like communicating vessels, so that a rare kind of segment is kept whole and
common ones share the rest evenly. A key is a hash of seed and segment id, so the choice depends on what was
offered, and not on the order or the time of it.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field

from questloop.episodes.segment import Segment
from questloop.storage.keys import SegmentId


@dataclass
class _Stratum:
    rank: bytes  # decides among equally large ones
    heap: list[tuple[bytes, SegmentId, Segment]] = field(default_factory=list)  # the lowest key first


class Selection:
    """Keeps the best `budget` of the segments offered; never holds more than one beyond that."""

    def __init__(self, budget: int, seed: int) -> None:
        self.budget = budget
        self._seed = seed
        self._strata: dict[Hashable, _Stratum] = {}

    def __len__(self) -> int:
        return sum(len(stratum.heap) for stratum in self._strata.values())

    def offer(self, segment: Segment) -> None:
        """Take a segment in, at the cost of another one where the budget is spent."""
        name = stratum(segment)
        if name not in self._strata:
            self._strata[name] = _Stratum(self._hash(name))
        key = self._hash(segment.id.episode, segment.id.index)
        heapq.heappush(self._strata[name].heap, (key, segment.id, segment))
        while len(self) > self.budget:
            self._drop_one()

    def take(self, count: int) -> list[Segment]:
        """Hand out the best `count` of what is kept, by segment id; the rest stays."""
        rest = [self._drop_one() for _ in range(len(self) - count)]
        kept = (segment for stratum in self._strata.values() for _, _, segment in stratum.heap)
        taken = sorted(kept, key=lambda segment: segment.id)
        self._strata = {}
        for segment in rest:
            self.offer(segment)
        return taken

    def _drop_one(self) -> Segment:
        """Take out the lowest key of the largest stratum."""
        name, largest = max(self._strata.items(), key=lambda item: (len(item[1].heap), item[1].rank))
        _, _, dropped = heapq.heappop(largest.heap)
        if not largest.heap:
            del self._strata[name]
        return dropped

    def _hash(self, *parts: object) -> bytes:
        return hashlib.blake2b(repr((self._seed, *map(str, parts))).encode(), digest_size=8).digest()


def stratum(segment: Segment) -> tuple[str, int, int]:
    """The episode; 0 nothing, 1 a tile or 2 a room or milestone was new; the sign of the other rewards."""
    rewards = segment.rewards
    room, tile = rewards.get("room", 0.0) > 0 or bool(segment.milestones), rewards.get("tile", 0.0) > 0
    other = segment.raw_return - segment.novelty - rewards.get("revisit", 0.0)
    sign = 0 if abs(other) < 1e-6 else (1 if other > 0 else -1)
    return str(segment.id.episode), 2 if room else int(tile), sign
