"""The form of a plan: a short list of macro actions, checked before anything moves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from questloop.errors import reason_of
from questloop.planner.room import Direction

MAX_MACROS = 32
MAX_WAIT_STEPS = 150

Row = Annotated[int, Field(ge=0, le=10)]
Column = Annotated[int, Field(ge=0, le=14)]
Heading = Literal["up", "down", "left", "right"]


class _Macro(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MoveTo(_Macro):
    """Walk to a cell of this room."""

    do: Literal["MOVE_TO"]
    row: Row
    column: Column


class PushBlock(_Macro):
    """Walk behind the block at a cell and push it one cell."""

    do: Literal["PUSH_BLOCK"]
    row: Row
    column: Column
    direction: Heading


class UseItem(_Macro):
    """Press a button's item, facing `direction` if given."""

    do: Literal["USE_ITEM"]
    button: Literal["A", "B"]
    direction: Heading | None = None


class Talk(_Macro):
    """Walk up to the person or sign at a cell, face it, press A, and read to the end or to a choice."""

    do: Literal["TALK"]
    row: Row
    column: Column


class Choose(_Macro):
    """Answer the question on the screen: 0 the first option, 1 the second."""

    do: Literal["CHOOSE"]
    option: Annotated[int, Field(ge=0, le=3)]


class Wait(_Macro):
    """Do nothing for `steps` times four frames, a fifteenth of a second each."""

    do: Literal["WAIT"]
    steps: Annotated[int, Field(ge=1, le=MAX_WAIT_STEPS)]


class Attack(_Macro):
    """Walk up to the nearest enemy and strike until none that counts is left."""

    do: Literal["ATTACK"]


class Exit(_Macro):
    """Leave the room over an edge."""

    do: Literal["EXIT"]
    direction: Heading


Macro = Annotated[
    MoveTo | PushBlock | UseItem | Talk | Choose | Wait | Attack | Exit, Field(discriminator="do")
]


class Plan(BaseModel):
    """A planner's answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reason: Annotated[str, Field(max_length=500)] = ""
    macros: Annotated[list[Macro], Field(min_length=1, max_length=MAX_MACROS)]


class InvalidPlan(ValueError):
    """The reply is not a plan; the message says where it departs from the schema."""


def parse_plan(document: Any) -> Plan:
    """Check a decoded JSON document. Raises `InvalidPlan` in one line."""
    try:
        return Plan.model_validate(document)
    except ValidationError as error:
        raise InvalidPlan(reason_of(error, "plan")) from None


def in_words(macro: Macro) -> str:
    """A macro in a few characters.

    >>> in_words(PushBlock(do="PUSH_BLOCK", row=3, column=4, direction="up"))
    'PUSH_BLOCK 3,4 up'
    """
    values = macro.model_dump(exclude_none=True)
    place = [f"{values.pop('row')},{values.pop('column')}"] if "row" in values else []
    return " ".join([values.pop("do"), *place, *map(str, values.values())])


def plan_schema() -> dict[str, Any]:
    """The JSON schema that is sent with a request for structured output."""
    return Plan.model_json_schema()


HEADINGS: dict[str, Direction] = {
    "up": Direction.UP,
    "down": Direction.DOWN,
    "left": Direction.LEFT,
    "right": Direction.RIGHT,
}
