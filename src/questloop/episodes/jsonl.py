"""Writes and reads files of JSON lines, one model per line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from questloop.errors import BadDataError, reason_of

_Line = TypeVar("_Line", bound=BaseModel)


def to_jsonl(items: Iterable[BaseModel]) -> bytes:
    """One JSON object a line."""
    return b"".join(item.model_dump_json().encode() + b"\n" for item in items)


def from_jsonl(model: type[_Line], data: bytes, where: str, remedy: str) -> list[_Line]:
    """Lines back into models; `BadDataError` says `where`, in which line and what, and the `remedy`."""
    found = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            found.append(model.model_validate_json(line))
        except ValidationError as error:
            raise BadDataError(f"{where} line {number}: {reason_of(error)}; {remedy}") from None
    return found
