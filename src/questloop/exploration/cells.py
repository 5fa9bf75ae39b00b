"""The cells of the archive of restart points: a room together with keys and milestones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.game.columns import Columns, Masks

_NAME = re.compile("g([0-7])-r([0-9a-f]{2})-k([0-9]{1,9})-m([0-9a-f]{1,16})")


class CellTracker:
    """Follows N slots from cell to cell.

    A cell is a room together with what was achieved: `(group, room, keys held, milestones that hold now)`.
    Rooms say where, keys and milestones say how far: a room before and after the sword is two cells. A cell
    is entered only where the player walks freely, since a state restored there must be playable.
    """

    def __init__(self, n: int) -> None:
        self._place = np.full(n, -1, np.int32)
        self._keys = np.zeros(n, np.int32)
        self._milestones: Masks = np.zeros(n, np.object_)

    def reset(self, slots: NDArray[np.intp], columns: Columns) -> None:
        """Begin an episode in `slots` (indices or mask): the cell it starts in is not entered."""
        free = _free(columns)[slots]
        self._place[slots] = np.where(free, columns.place[slots], -1)
        self._keys[slots] = _keys(columns)[slots]
        self._milestones[slots] = columns.milestones[slots]

    def entered(self, columns: Columns) -> list[tuple[int, str]]:
        """Slots that came to another cell, each with the cell's name."""
        place, keys = columns.place, _keys(columns)
        changed = (place != self._place) | (keys != self._keys) | (columns.milestones != self._milestones)
        changed &= _free(columns)
        slots = np.flatnonzero(changed)
        if not slots.size:
            return []
        self._place[slots] = place[slots]
        self._keys[slots] = keys[slots]
        self._milestones[slots] = columns.milestones[slots]
        return [
            (int(slot), cell_name(int(place[slot]), int(keys[slot]), int(columns.milestones[slot])))
            for slot in slots
        ]

    def state_dict(self) -> dict[str, Any]:
        """Values by slot."""
        return {
            "place": self._place.copy(),
            "keys": self._keys.copy(),
            "milestones": self._milestones.tolist(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._place[:] = state["place"]
        self._keys[:] = state["keys"]
        self._milestones[:] = state["milestones"]


def cell_name(place: int, keys: int, milestones: int) -> str:
    """Name of a cell, fit for a key of the store.

    >>> cell_name(place=0x4_06, keys=1, milestones=0b101)
    'g4-r06-k1-m5'
    """
    return f"g{place >> 8}-r{place & 255:02x}-k{keys}-m{milestones:x}"


def parse_cell_name(name: str) -> tuple[int, int, int]:
    """Place, keys and milestones of a name. Raises `ValueError` where it is none.

    >>> parse_cell_name("g4-r06-k1-m5") == (0x4_06, 1, 0b101)
    True
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no cell")
    return int(found[1]) << 8 | int(found[2], 16), int(found[3]), int(found[4], 16)


def _keys(columns: Columns) -> NDArray[np.int32]:
    return columns.small_keys + columns.boss_keys


def _free(columns: Columns) -> NDArray[np.bool_]:
    return columns.walks_freely & (columns.health > 0)
