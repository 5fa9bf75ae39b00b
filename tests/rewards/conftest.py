"""Columns by name, for rewards that are tested without a game behind them."""

from collections.abc import Callable
from typing import Any

import pytest

from questloop.game.columns import Columns


@pytest.fixture
def columns() -> Callable[..., Columns]:
    """Columns of `n` slots that stand in control with full health, but for the `values` by name.

    A value is a scalar or one for each slot; `at` is the tile (row, column) that all stand on.
    """

    def make(n: int = 1, at: tuple[int, int] = (0, 0), **values: Any) -> Columns:
        made = Columns.zeros(n)
        usual = {"has_control": True, "health": 12, "y": at[0] * 16 + 8, "x": at[1] * 16 + 8}
        for name, value in (usual | values).items():
            getattr(made, name)[:] = value
        made.tile[:] = (made.y // 16) * 16 + made.x // 16
        return made

    return make
