"""Stretches of an episode that a planner played in place of the policy, with the plans it played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field


class PlayedPlan(BaseModel):
    """A plan of a takeover; one that was refused has no macros."""

    step: int = Field(ge=0, description="of the takeover, at which it was asked for")
    source: str = Field(description="the rules or the model that answered")
    reason: str
    macros: tuple[str, ...]
    played: int = Field(ge=0, description="macros that were played to their end")
    ended: str = Field(description="`done`, why not, or empty where the takeover ended first")


class Takeover(BaseModel):
    """A stretch of an episode that a planner played."""

    mode: str
    room: str
    first_step: int = Field(ge=0, description="of the episode")
    steps: int = Field(ge=0)
    outcome: str
    plans: list[PlayedPlan]


@dataclass(frozen=True)
class EndedTakeover:
    """A takeover that is over, before it is known at which step of its episode it began.

    That is episode step `[row, slot] + past - takeover.steps`.
    """

    slot: int
    row: int  # steps of every slot since the last report
    past: int  # 1: row is its last step, 0: row is the first one after it
    takeover: Takeover

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {**vars(self), "takeover": self.takeover.model_dump()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> EndedTakeover:
        """Read what `to_json` gave, or what checkpoints of version 0.1 hold under `account`."""
        old = document.get("account")
        takeover = {**old, "first_step": 0} if old else document["takeover"]
        place = {name: document[name] for name in ("slot", "row", "past")}
        return cls(**place, takeover=Takeover.model_validate(takeover))
