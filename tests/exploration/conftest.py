"""Columns by name, and a real game to explore."""

from collections.abc import Callable
from typing import Any

import pytest

from questloop.game.columns import Columns
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom


@pytest.fixture
def columns() -> Callable[..., Columns]:
    """Columns of `n` slots in control, but for the `values` by name (a scalar or one for each slot)."""

    def make(n: int = 1, **values: Any) -> Columns:
        made = Columns.zeros(n)
        for name, value in ({"has_control": True, "health": 12} | values).items():
            getattr(made, name)[:] = value
        return made

    return make


@pytest.fixture(scope="session")
def game() -> tuple[Rom, Profile]:
    """The bundled game."""
    rom = Rom.load(None)
    return rom, profile_for(rom)
