"""The curriculum of start states: episodes begin further on once the next milestone is reached often."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from questloop.errors import BadDataError

EPISODES = 20
SHARE = 0.4
NEWEST_SHARE = 0.5


class Curriculum:
    """Start states in the order of play; stage k begins at `starts[k]` and has the milestone `starts[k + 1]`.

    `starts[0]` is the beginning, every other start is the state at the milestone of its name. The stage
    advances when 40% of its last 20 episodes reached its milestone, or one that comes later: a milestone that
    can be passed by, such as a talk, must not hold the others up.
    """

    def __init__(self, starts: Sequence[str]) -> None:
        self.starts = tuple(starts)
        self.stage = 0
        self._reached: deque[bool] = deque(maxlen=EPISODES)

    @property
    def goal(self) -> str | None:
        """The milestone that the stage is about; None once the last start is in use."""
        return self.starts[self.stage + 1] if self.stage + 1 < len(self.starts) else None

    def choose(self, rng: np.random.Generator) -> str:
        """A start: the stage's own in half of the episodes, else any.

        Those before it keep the way there in practice; those ahead teach what it is worth to come there,
        before the policy has settled for less.
        """
        if rng.random() < NEWEST_SHARE:
            return self.starts[self.stage]
        return self.starts[int(rng.integers(len(self.starts)))]

    def record(self, start: str, reached: Collection[str]) -> bool:
        """Note an episode from `start` and the milestones it reached; True where that advances the stage.

        Only episodes from the newest start count.
        """
        if self.goal is None or start != self.starts[self.stage]:
            return False
        self._reached.append(any(name in reached for name in self.starts[self.stage + 1 :]))
        if len(self._reached) < EPISODES or sum(self._reached) < SHARE * EPISODES:
            return False
        self.stage += 1
        self._reached.clear()
        return True

    def to_json(self) -> dict[str, Any]:
        """What progress shows, and what `load` goes on from."""
        return {
            "starts": list(self.starts),
            "stage": self.stage,
            "start": self.starts[self.stage],
            "goal": self.goal,
            "reached": list(self._reached),
        }

    @classmethod
    def load(cls, document: dict[str, Any], starts: Sequence[str]) -> Curriculum:
        """Go on from `to_json`; `BadDataError` where the start states are others now."""
        if document["starts"] != list(starts):
            raise BadDataError(
                f"the curriculum was made for the start states {', '.join(document['starts'])}, "
                f"now there are {', '.join(starts)}; put those back, or begin a new run"
            )
        curriculum = cls(starts)
        curriculum.stage = document["stage"]
        curriculum._reached.extend(document["reached"])
        return curriculum
