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
        self._slots = np.arange(n, dtype=np.int32)[:, None]
        self._place = np.full(n, -1, np.int32)
        self._y = np.zeros(n, np.int32)
        self._x = np.zeros(n, np.int32)
        self.recent = np.zeros((n, 4), np.int32)
        """Pixels moved right and down in the last step (0 across rooms and after a reset), and steps since a
        metatile and a room were visited for the first time."""
        self.rooms_beside = np.zeros((n, 4), np.bool_)
        """Whether the rooms up, right, down and left of each hero's on the map were entered."""
        self.tiles_beside = np.zeros((n, 4), np.bool_)
        """Whether the metatiles up, right, down and left of each hero were stepped on."""

    def reset(self, slots: Bools | Ints | list[int]) -> None:
        """Forget `slots`: a mask bool[N] or indices."""
        self._rooms[slots] = False
        self._tiles[slots] = 0
        self._place[slots] = -1
        self.recent[slots] = 0
        self.rooms_beside[slots] = self.tiles_beside[slots] = False

    def put(self, slots: NDArray[np.integer[Any]], other: History) -> None:
        """Take over the history of another object, its slots for `slots` of this one."""
        for name in (*_STATE, "rooms_beside", "tiles_beside"):
            getattr(self, name)[slots] = getattr(other, name)

    def add(self, columns: Columns) -> None:
        """Count one step of every slot. Visits do not count while the screen scrolls or fades."""
        place = columns.place
        same = place == self._place
        dx, dy, since_tile, since_room = self.recent.T
        np.multiply(columns.x - self._x, same, out=dx)
        np.multiply(columns.y - self._y, same, out=dy)
        self._place[:], self._y[:], self._x[:] = place, columns.y, columns.x

        counts = ~columns.transition
        since_room += 1
        since_room *= self._enter(columns, counts)
        since_tile += 1
        since_tile *= self._step_on(columns, counts)

    def _enter(self, columns: Columns, counts: Bools) -> Bools:
        """Mark the rooms of slots that count; False where they were new."""
        areas = _area(columns)[:, None] + _BESIDE[columns.room] + self._slots * (_GROUPS * _ROOMS)
        known = self._rooms.take(areas)
        here = known[:, 0]
        self._rooms.reshape(-1)[areas[:, 0]] = here | counts
        self.rooms_beside = known[:, 1:] & _INSIDE[columns.room]
        old: Bools = here | ~counts
        return old

    def _step_on(self, columns: Columns, counts: Bools) -> Bools:
        """Mark the metatiles of slots that count; False where they were new."""
        tiles = _BESIDE[columns.tile]
        area = (_area(columns) + columns.room)[:, None] + self._slots * (_GROUPS * _ROOMS)
        places = area * (_TILES // 8) + (tiles >> 3)
        found = self._tiles.take(places)
        bits = _BITS[tiles & 7]
        known = found & bits != 0
        here = known[:, 0]
        self._tiles.reshape(-1)[places[:, 0]] = found[:, 0] | bits[:, 0] * counts
        self.tiles_beside = known[:, 1:] & _INSIDE[columns.tile]
        old: Bools = here | ~counts
        return old

    def tiles_stepped_on(self, slot: int, place: int) -> Bools:
        """Which metatiles of the room at `place` the slot stepped on, bool[16, 16] by row and column."""
        area = place & (_GROUPS * _ROOMS - 1)
        bits = np.unpackbits(self._tiles[slot, area], bitorder="little")
        return bits.reshape(16, 16).astype(np.bool_)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of all arrays."""
        return {name: getattr(self, name).copy() for name in _STATE}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore `state_dict` of as many slots."""
        for name in _STATE:
            if state[name].shape != getattr(self, name).shape:
                raise ValueError(f"history {name}: {state[name].shape}, not {getattr(self, name).shape}")
            setattr(self, name, state[name].copy())


_STATE = ("_rooms", "_tiles", "_place", "_y", "_x", "recent")
_BITS = (1 << np.arange(8)).astype(np.uint8)


def _sides() -> tuple[Ints, Bools]:
    """For each cell of a 16 x 16 map: itself and those up, right, down and left; which of the four exist."""
    cell = np.arange(256)[:, None]
    rows, columns = (cell >> 4) + np.array([0, -1, 0, 1, 0]), (cell & 15) + np.array([0, 0, 1, 0, -1])
    inside = (rows >= 0) & (rows < 16) & (columns >= 0) & (columns < 16)
    return ((rows & 15) << 4 | (columns & 15)).astype(np.int32), inside[:, 1:]


_BESIDE, _INSIDE = _sides()


def _area(columns: Columns) -> Ints:
    """Where the rooms of each slot's group begin."""
    area: Ints = (columns.group & (_GROUPS - 1)) << 8
    return area
