"""What an episode has seen so far, for the observation's history dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.game.columns import Bools, Columns, Ints

_GROUPS, _ROOMS, _TILES = 8, 256, 256


class History:
    """Rooms entered, metatiles stepped on, and the last movement, of N slots.

    Visits are bit sets: 64 KiB a slot. Groups beyond 7 share the sets of their number modulo 8.
    """

    def __init__(self, n: int) -> None:
        self._rooms = np.zeros((n, _GROUPS * _ROOMS), np.bool_)
        self._tiles = np.zeros((n, _GROUPS * _ROOMS, _TILES // 8), np.uint8)
        self._slots = np.arange(n)
        self._place = np.full(n, -1, np.int32)
        self._y = np.zeros(n, np.int32)
        self._x = np.zeros(n, np.int32)
        self.dx = np.zeros(n, np.int32)
        """Pixels moved right in the last step; 0 across rooms and after a reset."""
        self.dy = np.zeros(n, np.int32)
        self.since_tile = np.zeros(n, np.int32)
        """Steps since a metatile was stepped on for the first time."""
        self.since_room = np.zeros(n, np.int32)

    def reset(self, slots: Bools | Ints | list[int]) -> None:
        """Forget `slots`: a mask bool[N] or indices."""
        self._rooms[slots] = False
        self._tiles[slots] = 0
        self._place[slots] = -1
        for values in (self.dx, self.dy, self.since_tile, self.since_room):
            values[slots] = 0

    def add(self, columns: Columns) -> None:
        """Count one step of every slot. Visits do not count while the screen scrolls or fades."""
        place = columns.place
        same = place == self._place
        self.dx = np.where(same, columns.x - self._x, 0)
        self.dy = np.where(same, columns.y - self._y, 0)
        self._place, self._y, self._x = place, columns.y, columns.x

        counts = ~columns.transition
        area = place & (_GROUPS * _ROOMS - 1)
        byte, bit = columns.tile >> 3, (1 << (columns.tile & 7)).astype(np.uint8)
        old = self._tiles[self._slots, area, byte]
        new_tile = counts & (old & bit == 0)
        self._tiles[self._slots, area, byte] = np.where(counts, old | bit, old)
        known = self._rooms[self._slots, area]
        new_room = counts & ~known
        self._rooms[self._slots, area] = known | counts
        self.since_tile = np.where(new_tile, 0, self.since_tile + 1)
        self.since_room = np.where(new_room, 0, self.since_room + 1)

    def entered(self, groups: Ints, rooms: Ints) -> Bools:
        """Whether each slot entered `rooms` [N, M] of `groups` [N, 1]."""
        entered: Bools = self._rooms[self._slots[:, None], (groups & (_GROUPS - 1)) << 8 | rooms]
        return entered

    def stepped_on(self, places: Ints, tiles: Ints) -> Bools:
        """Whether each slot stepped on `tiles` [N, M] of the rooms at `places` [N, 1]."""
        area = places & (_GROUPS * _ROOMS - 1)
        found: Bools = (
            self._tiles[self._slots[:, None], area, tiles >> 3] >> (tiles & 7).astype(np.uint8) & 1 != 0
        )
        return found

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of all arrays."""
        return {name: getattr(self, name).copy() for name in _STATE}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore `state_dict` of as many slots."""
        for name in _STATE:
            if state[name].shape != getattr(self, name).shape:
                raise ValueError(f"history {name}: {state[name].shape}, not {getattr(self, name).shape}")
            setattr(self, name, state[name].copy())


_STATE = ("_rooms", "_tiles", "_place", "_y", "_x", "dx", "dy", "since_tile", "since_room")
