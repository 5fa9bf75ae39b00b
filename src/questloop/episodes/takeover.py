"""Stretches of an episode that a planner played in place of the policy, as `episode.json` keeps them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class PlayedPlan(BaseModel):
    """A plan of a takeover; one that was refused has no macros."""

    model_config = ConfigDict(frozen=True)

    step: int = Field(ge=0, description="of the takeover, at which it was asked for")
    source: str = Field(description="the rules or the model that answered")
    reason: str
    macros: tuple[str, ...]
    played: int = Field(ge=0, description="macros that were played to their end")
    ended: str = Field(description="`done`, why not, or empty where the takeover ended first")


class Takeover(BaseModel):
    """A stretch of an episode that a planner played."""

    model_config = ConfigDict(frozen=True)

    mode: str
    room: str
    first_step: int = Field(ge=0, description="of the episode")
    steps: int = Field(ge=0)
    outcome: str
    plans: tuple[PlayedPlan, ...]
