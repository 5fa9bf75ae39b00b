"""Checks that every part of a game profile has the kind that its annotation says; a dataclass takes any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from questloop.errors import message_of
from questloop.game.profile import Profile

_PLAIN: dict[str, Any] = {"action_mask": np.ndarray, "decode": Callable}
"""Of annotations with parameters that cannot be looked up in a value."""


def wrong_types(profile: Profile) -> Iterator[str]:
    """A line for each part of another kind: `sanity.maps.0: must be a valid tuple, not 16`."""
    parts = {name: getattr(profile, name) for name in _model().model_fields}
    try:
        _model().model_validate(parts)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            where = ".".join(str(part) for part in found["loc"])
            message = message_of(found)
            yield f"{where}: {message[:1].lower()}{message[1:]}, not {found['input']!r:.60}"


@cache
def _model() -> type[BaseModel]:
    hints = {name: hint for name, hint in get_type_hints(Profile).items() if name != "detector"}
    wanted: dict[str, Any] = {name: (hint, ...) for name, hint in (hints | _PLAIN).items()}
    config = ConfigDict(arbitrary_types_allowed=True, revalidate_instances="always", strict=True)
    return create_model("Parts", __config__=config, **wanted)
