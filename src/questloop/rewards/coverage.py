"""Rewards for rooms and tiles seen for the first time in an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from questloop.rewards.events import mark
from questloop.rewards.terms import Latches, Slots

if TYPE_CHECKING:
    from questloop.game.columns import Columns

GROUPS, ROOMS, TILES = 8, 256, 176
NOWHERE = -1


class Coverage(Latches):
    """First visits of rooms and tiles, and steps onto a tile visited before.

    A place is (group, room, tile) and counts only while the player walks freely: menus, dialogs, room
    transitions and deaths are no visits, standing still is no revisit. Where an episode starts pays nothing.
    """

    names = ("room", "tile", "revisit")

    def __init__(self, n: int) -> None:
        self.rooms = np.zeros(n, np.int32)
        """Rooms visited in the episode, its first one included."""
        self._seen_tiles = np.zeros((n, GROUPS * ROOMS * TILES // 8), np.uint8)
        self._seen_rooms = np.zeros((n, GROUPS * ROOMS // 8), np.uint8)
        self._last = np.full(n, NOWHERE, np.int32)
        super().__init__(
            rooms=self.rooms, seen_tiles=self._seen_tiles, seen_rooms=self._seen_rooms, last=self._last
        )

    def reset(self, slots: Slots, columns: Columns) -> None:
        self.rooms[slots] = 0
        self._seen_tiles[slots] = 0
        self._seen_rooms[slots] = 0
        self._last[slots] = NOWHERE
        started = np.zeros(len(self._last), np.bool_)
        started[slots] = True
        at, place = self._arrivals(columns)
        self._visit(at[started[at]], place)

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        out[:] = 0
        slots, place = self._arrivals(columns)
        if slots.size == 0:
            return
        paid = self._last[slots] != NOWHERE
        new_room, new_tile = self._visit(slots, place)
        out[0, slots] = new_room & paid
        out[1, slots] = new_tile & paid
        out[2, slots] = ~new_tile

    def _arrivals(self, columns: Columns) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Slots whose player has come to another place, and every slot's place."""
        place = columns.place
        place *= TILES
        place += columns.tile
        arrived = place != self._last
        arrived &= columns.has_control
        arrived &= columns.menu_open == 0
        arrived &= ~(columns.transition | columns.dying | columns.game_over)
        arrived &= columns.tile < TILES
        arrived &= columns.group < GROUPS
        return np.flatnonzero(arrived), place

    def _visit(
        self, slots: NDArray[np.intp], place: NDArray[np.int32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        here = place[slots]
        self._last[slots] = here
        new_tile = mark(self._seen_tiles, slots, here)
        new_room = mark(self._seen_rooms, slots, here // TILES)
        self.rooms[slots] += new_room
        return new_room, new_tile
