"""The form of a strategic hint and of the request for one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from questloop.errors import reason_of
from questloop.game.profile import Profile
from questloop.planner.plan import HEADINGS, Column, Heading, InvalidPlan, Row
from questloop.planner.room import SIDES, Place, distance
from questloop.planner.view import Scene, View, view_of

PROMPT_VERSION = 2
MODE = "hint"

_NEAR = 1  # cells from the hero to a target that is no hint


class _Target(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ToExit(_Target):
    """The room over an edge."""

    to: Literal["exit"]
    direction: Heading


class ToCell(_Target):
    """A cell of this room: a chest, a person, a door."""

    to: Literal["cell"]
    row: Row
    column: Column


class Hint(_Target):
    """A planner's answer; no target: stay."""

    reason: Annotated[str, Field(max_length=500)] = ""
    target: Annotated[ToExit | ToCell, Field(discriminator="to")] | None


def request(scene: Scene, profile: Profile, visited: list[bool]) -> dict[str, Any]:
    """What is asked: the request of a plan, the sides whose rooms were entered, and what comes next."""
    titles = [each.title for each in profile.milestones if each.key not in scene.state.milestones]
    return {
        "version": PROMPT_VERSION,
        "mode": MODE,
        "game": profile.name,
        "state": scene.state.to_json(),
        "view": view_of(scene, profile).to_json(),
        "visited": [side.name.lower() for side, entered in zip(SIDES, visited, strict=True) if entered],
        "next": titles[0] if titles else None,
    }


def parse_hint(document: Any) -> Hint:
    """Check a decoded JSON document. Raises `InvalidPlan` in one line."""
    try:
        return Hint.model_validate(document)
    except ValidationError as error:
        raise InvalidPlan(reason_of(error, "hint")) from None


def hint_schema() -> dict[str, Any]:
    """The JSON schema that is sent with a request for structured output."""
    return Hint.model_json_schema()


def cell_of(target: ToExit | ToCell, view: View) -> Place | None:
    """The cell that a target means: of an edge, the opening that is nearest. None: there is no such place
    in this room, or the hero is there already."""
    if isinstance(target, ToExit):
        openings = view.exits(HEADINGS[target.direction])
        return min(openings, key=lambda cell: distance(cell, view.hero), default=None)
    cell = target.row, target.column
    return cell if view.room.inside(cell) and distance(cell, view.hero) > _NEAR else None
