"""Who chooses the actions at a step: the policy, or the planner in a dialog or at a puzzle."""

from enum import StrEnum


class Mode(StrEnum):
    """Who chooses the actions of a game, and by which kind of plan."""

    POLICY = "policy"
    DIALOG = "dialog"
    PUZZLE = "puzzle"
