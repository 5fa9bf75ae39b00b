"""The actions of an agent: eight that every game has, and more that a profile may open to its policy."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Action(IntEnum):
    """One button per step. The value is the action's index in the policy's output."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3
    A = 4
    B = 5
    START = 6
    NOP = 7


class Chord(IntEnum):
    """What a profile may add for games that need it: Select, and A or B pressed while a direction is held."""

    SELECT = 8
    A_UP = 9
    A_DOWN = 10
    A_LEFT = 11
    A_RIGHT = 12
    B_UP = 13
    B_DOWN = 14
    B_LEFT = 15
    B_RIGHT = 16


Button = Action | Chord

ACTION_COUNT = len(Action)
ALL_COUNT = len(Action) + len(Chord)

BUTTONS: dict[str, Button] = {**Action.__members__, **Chord.__members__}
"""Every action by its name."""

ACTIONS = tuple(BUTTONS.values())
"""Every action by its value."""


def _parts(action: Button) -> tuple[int, int]:
    if action is Chord.SELECT:
        return -1, int(action)
    if isinstance(action, Chord):
        button, _, direction = action.name.partition("_")
        return int(Action[direction]), int(Action[button])
    if action is Action.NOP:
        return -1, -1
    return (int(action), -1) if action < Action.A else (-1, int(action))


PARTS = tuple(_parts(action) for action in ACTIONS)
"""By action: the direction that is held and the button that is pressed, as actions; -1 for none."""

HELD_BITS: NDArray[np.float32] = np.array(
    [
        [float(bit in PARTS[action] or bit == action) for bit in range(ACTION_COUNT)]
        for action in range(ALL_COUNT)
    ],
    np.float32,
)
"""[17, 8]: which of the eight an action consists of; none of Select."""


def policy_actions(*more: Chord, without: tuple[Action, ...] = ()) -> NDArray[np.bool_]:
    """A profile's `action_mask`: the eight but for those `without`, and `more`.

    >>> int(policy_actions(Chord.A_UP, without=(Action.START,)).sum())
    8
    """
    count = ALL_COUNT if more else ACTION_COUNT
    return np.array(
        [action not in without if action < ACTION_COUNT else action in more for action in ACTIONS[:count]]
    )
