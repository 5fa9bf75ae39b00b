"""Rewards for what happens in the game; each is paid once per episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from questloop.rewards.terms import Latches, RewardTerm, Slots

if TYPE_CHECKING:
    from questloop.game.columns import Columns

TEXTS = 1 << 16
PLACES = 1 << 11
UNKNOWN = -1


def event_terms(n: int) -> tuple[RewardTerm, ...]:
    """Every event reward, for `n` slots."""
    return (
        Damage(n),
        Highest("rupee", n, lambda columns: columns.rupees),
        Keys(n),
        Highest("sword", n, lambda columns: columns.sword_level),
        Essences(n),
        Deaths(n),
        Dialogs(n),
    )


class Highest(Latches):
    """How far a count rises above its highest of the episode: earning back what was spent pays nothing."""

    def __init__(self, name: str, n: int, count: Callable[[Columns], NDArray[Any]]) -> None:
        self.names = (name,)
        self._count = count
        self._best = np.zeros(n, np.int32)
        super().__init__(best=self._best)

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._best[slots] = self._count(columns)[slots]

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        count = self._count(columns)
        np.subtract(count, self._best, out=out[0], casting="unsafe")
        np.maximum(out[0], 0, out=out[0])
        np.maximum(self._best, count, out=self._best, casting="unsafe")


class Keys(Latches):
    """Small and boss keys found: a room pays for its keys once, also when others were spent before.

    What the player holds is compared while there is control, so that memory being cleared and loaded again is
    no find; a key pays when its fanfare is over.
    """

    names = ("key",)

    def __init__(self, n: int) -> None:
        self._held = np.full(n, UNKNOWN, np.int32)
        self._found = np.zeros((n, PLACES // 8), np.uint8)
        super().__init__(held=self._held, found=self._found)

    def reset(self, slots: Slots, columns: Columns) -> None:
        held = np.where(columns.has_control, columns.small_keys + columns.boss_keys, UNKNOWN)
        self._held[slots] = held[slots]
        self._found[slots] = 0

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        out[0] = 0
        count = columns.small_keys + columns.boss_keys
        slots = np.flatnonzero((count > self._held) & columns.has_control & (self._held != UNKNOWN))
        if slots.size:
            new = mark(self._found, slots, columns.place[slots] & (PLACES - 1))
            out[0, slots] = new * (count[slots] - self._held[slots])
        np.copyto(self._held, count, where=columns.has_control)


class Damage(Latches):
    """Quarter hearts lost in the step; healing pays nothing."""

    names = ("health",)

    def __init__(self, n: int) -> None:
        self._health = np.zeros(n, np.int32)
        super().__init__(health=self._health)

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._health[slots] = columns.health[slots]

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        np.subtract(self._health, columns.health, out=out[0], casting="unsafe")
        np.maximum(out[0], 0, out=out[0])
        self._health[:] = columns.health


class Essences(Latches):
    """Essences never owned before in the episode."""

    names = ("essence",)

    def __init__(self, n: int) -> None:
        self._owned = np.zeros(n, np.int32)
        super().__init__(owned=self._owned)

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._owned[slots] = columns.essences[slots]

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        owned = self._owned | columns.essences
        out[0] = np.bitwise_count(owned ^ self._owned)
        self._owned[:] = owned


class Deaths(Latches):
    """Deaths; one lasts until the player has control again, whatever the flags do meanwhile."""

    names = ("death",)

    def __init__(self, n: int) -> None:
        self._dead = np.zeros(n, np.bool_)
        super().__init__(dead=self._dead)

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._dead[slots] = (columns.dying | columns.game_over)[slots]

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        dying = columns.dying | columns.game_over
        np.greater(dying, self._dead, out=out[0], casting="unsafe")
        np.logical_and(self._dead, ~columns.has_control, out=self._dead)
        np.logical_or(self._dead, dying, out=self._dead)


class Dialogs(Latches):
    """Texts not read before in the episode. Texts of a menu, such as item names, do not count."""

    names = ("dialog",)

    def __init__(self, n: int) -> None:
        self._read = np.zeros((n, TEXTS // 8), np.uint8)
        super().__init__(read=self._read)

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._read[slots] = 0
        started = np.zeros(len(self._read), np.bool_)
        started[slots] = True
        self._mark(np.flatnonzero(started & _in_dialog(columns)), columns)

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        out[0] = 0
        slots = np.flatnonzero(_in_dialog(columns))
        if slots.size:
            out[0, slots] = self._mark(slots, columns)

    def _mark(self, slots: NDArray[np.intp], columns: Columns) -> NDArray[np.bool_]:
        """Mark the open texts of `slots` as read; True where they were new."""
        return mark(self._read, slots, columns.text_index[slots] & (TEXTS - 1))


def mark(bitmap: NDArray[np.uint8], slots: NDArray[np.intp], bits: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Set bit `bits[i]` of row `slots[i]` (rows distinct); True where it was not set."""
    byte = bits >> 3
    mask = np.left_shift(1, bits & 7).astype(np.uint8)
    before = bitmap[slots, byte]
    bitmap[slots, byte] = before | mask
    return (before & mask) == 0


def _in_dialog(columns: Columns) -> NDArray[np.bool_]:
    return columns.text_active & (columns.text_index >= 0) & (columns.menu_open == 0)
