"""Where a strategic hint points, as the policy sees it, and the bonus for getting there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from questloop.rewards.terms import Latches, Slots

if TYPE_CHECKING:
    from questloop.game.columns import Columns

HINT_SIZE = 4
"""Numbers per slot that `seen_by` gives."""

MOST_PAID = 20
"""Bonuses per episode."""

NO_EDGE = -1

_ARRIVED = 24  # pixels, along both axes together: beside a chest or a person, or on the place
_ENTRANCE = 40  # pixels from an edge within which a hero stands who has come over it
_FAR = 128


class HintTargets(Latches):
    """One target a slot: a place of the room in which the hint was given, or the room over one of its edges.

    A target that is reached pays one unit, up to `MOST_PAID` an episode, and is gone; so is one whose room
    was left another way.
    """

    names = ("hint",)

    def __init__(self, n: int) -> None:
        self.counts: Counter[str] = Counter()
        """Targets `reached` and `missed` since someone cleared it."""
        self._place = np.full(n, -1, np.int32)  # -1: no target
        self._y = np.zeros(n, np.int32)
        self._x = np.zeros(n, np.int32)
        self._edge = np.full(n, NO_EDGE, np.int32)
        self._paid = np.zeros(n, np.int32)
        super().__init__(place=self._place, y=self._y, x=self._x, edge=self._edge, paid=self._paid)

    def aim(self, slot: int, place: int, y: int, x: int, edge: int = NO_EDGE) -> None:
        """Point `slot` at a pixel of room `place` (group * 256 + room), `edge`: the side to leave over."""
        self._place[slot], self._y[slot], self._x[slot], self._edge[slot] = place, y, x, edge

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._place[slots] = -1
        self._paid[slots] = 0

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        out[:] = 0
        aimed = (self._place >= 0) & columns.has_control & ~columns.transition
        if not aimed.any():
            return
        here = columns.place == self._place
        dy, dx = self._distance(columns)
        arrived = here & (self._edge == NO_EDGE) & (abs(dy) + abs(dx) <= _ARRIVED)
        crossed = ~here & self._entered(columns)
        reached = aimed & (arrived | crossed)
        missed = aimed & ~here & ~crossed
        out[0] = reached & (self._paid < MOST_PAID)
        self._paid += reached
        self._place[reached | missed] = -1
        self.counts.update(reached=int(reached.sum()), missed=int(missed.sum()))

    def seen_by(self, columns: Columns) -> NDArray[np.float32]:
        """f32 [N, 4] in [-1, 1]: 1 where there is a target, pixels to it right and down / 128, 1 for an exit.

        Zeros without one.
        """
        here = columns.place == self._place
        dy, dx = self._distance(columns)
        seen = np.stack([np.ones_like(dx), dx / _FAR, dy / _FAR, self._edge != NO_EDGE], axis=1)
        seen *= here[:, None]
        return np.clip(seen, -1, 1).astype(np.float32)

    def _distance(self, columns: Columns) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self._y - columns.y, self._x - columns.x

    def _entered(self, columns: Columns) -> NDArray[np.bool_]:
        """Whether the hero stands where a room is entered over the target's edge: at its opposite one."""
        height = np.where(columns.large_room, 176, 128)
        width = np.where(columns.large_room, 240, 160)
        depth = np.choose(
            np.clip(self._edge, 0, 3), [height - columns.y, columns.x, columns.y, width - columns.x]
        )
        return (self._edge != NO_EDGE) & (depth <= _ENTRANCE)
