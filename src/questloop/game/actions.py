"""The eight actions of an agent."""

from enum import IntEnum


class Action(IntEnum):
    """One button a step. The value is the action's index in the policy's output."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3
    A = 4
    B = 5
    START = 6
    NOP = 7


ACTION_COUNT = len(Action)
