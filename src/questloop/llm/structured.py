"""Reads JSON from a model's text: strictly where the server enforced a schema, else tolerantly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

MAX_STARTS = 200
"""opening braces tried; a reply of nothing but braces must not cost quadratic time"""

_decoder = json.JSONDecoder()


class ParseFailure(StrEnum):
    """Why a text holds no usable object."""

    EMPTY = "empty"
    NO_JSON = "no_json"
    BAD_JSON = "bad_json"
    MISSING_FIELD = "missing_field"


class ParseError(ValueError):
    """A text without the object that was asked for."""

    def __init__(self, reason: ParseFailure, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason


def parse_object(text: str, required: Sequence[str]) -> dict[str, Any]:
    """The last JSON object in `text` that has every key of `required`.

    Fences and prose around it are passed over; the last one counts, since models think first and answer
    last. NaN and infinities come through as floats: the caller judges values.

    >>> parse_object('Sure!\\n```json\\n{"overall": 0.5}\\n```', ["overall"])
    {'overall': 0.5}
    """
    if not text.strip():
        raise ParseError(ParseFailure.EMPTY)
    found = list(_objects(text))
    complete = [item for item in found if all(key in item for key in required)]
    if complete:
        return complete[-1]
    if found:
        missing = [key for key in required if key not in found[-1]]
        raise ParseError(ParseFailure.MISSING_FIELD, ", ".join(missing))
    raise ParseError(ParseFailure.BAD_JSON if "{" in text else ParseFailure.NO_JSON)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Outermost objects in order."""
    position = 0
    for _ in range(MAX_STARTS):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        yield value
