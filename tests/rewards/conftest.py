"""A test double of the game's columns: named values for every slot, no game behind them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

NUMBERS = {
    "group": 0,
    "room": 0,
    "y": 8,
    "x": 8,
    "health": 12,
    "rupees": 0,
    "small_keys": 0,
    "boss_keys": 0,
    "sword_level": 0,
    "essences": 0,
    "text_index": 0,
}
FLAGS = {
    "text_active": False,
    "menu_open": False,
    "has_control": True,
    "dying": False,
    "game_over": False,
    "transition": False,
}


@pytest.fixture
def columns() -> Callable[..., Any]:
    """Columns of `n` slots by name, each a scalar or an array; `at` is a tile (row, column)."""

    def make(n: int = 1, at: tuple[int, int] | None = None, **values: Any) -> Any:
        if at is not None:
            values |= {"y": at[0] * 16 + 8, "x": at[1] * 16 + 8}
        unknown = set(values) - set(NUMBERS) - set(FLAGS)
        assert not unknown, unknown
        numbers = {name: _fill(n, values.get(name, usual), np.int32) for name, usual in NUMBERS.items()}
        flags = {name: _fill(n, values.get(name, usual), np.bool_) for name, usual in FLAGS.items()}
        numbers["tile"] = (numbers["y"] // 16) * 16 + numbers["x"] // 16
        return SimpleNamespace(**numbers, **flags)

    return make


def _fill(n: int, value: Any, dtype: Any) -> Any:
    return np.broadcast_to(np.asarray(value, dtype), n).copy()
