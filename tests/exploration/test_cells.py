"""When a slot enters a cell, and which."""

import doctest

import numpy as np
import pytest

from questloop.exploration import cells
from questloop.exploration.cells import CellTracker


def tracker(columns, **start):
    made = CellTracker(1)
    made.reset(np.array([0]), columns(**start))
    return made


def test_the_example_in_the_docstring_holds():
    assert doctest.testmod(cells).failed == 0


def test_a_cell_is_entered_once_on_the_way_in(columns):
    slot = tracker(columns, room=1)
    assert slot.entered(columns(room=1)) == []
    assert slot.entered(columns(room=2)) == [(0, "g0-r02-k0-m0")]
    assert slot.entered(columns(room=2)) == []
    assert slot.entered(columns(room=1)) == [(0, "g0-r01-k0-m0")]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"group": 1}, "g1-r01-k0-m0"),
        ({"small_keys": 1}, "g0-r01-k1-m0"),
        ({"boss_keys": 1, "small_keys": 1}, "g0-r01-k2-m0"),
        ({"milestones": 1 << 40}, "g0-r01-k0-m10000000000"),
    ],
)
def test_what_was_achieved_makes_another_cell_of_the_same_room(columns, change, name):
    assert tracker(columns, room=1).entered(columns(room=1, **change)) == [(0, name)]


@pytest.mark.parametrize(
    "hindrance",
    [
        {"has_control": False},
        {"transition": True},
        {"dying": True},
        {"game_over": True},
        {"text_active": True},
        {"menu_open": 1},
        {"health": 0},
    ],
)
def test_a_state_that_could_not_be_played_on_is_no_entry_until_it_can(columns, hindrance):
    slot = tracker(columns, room=1)
    assert slot.entered(columns(room=2, **hindrance)) == []
    assert slot.entered(columns(room=2)) == [(0, "g0-r02-k0-m0")]


def test_slots_are_apart_and_go_on_from_their_state(columns):
    slots = CellTracker(3)
    slots.reset(np.arange(3), columns(3))
    assert slots.entered(columns(3, room=[0, 1, 2])) == [(1, "g0-r01-k0-m0"), (2, "g0-r02-k0-m0")]
    resumed = CellTracker(3)
    resumed.load_state_dict(slots.state_dict())
    assert resumed.entered(columns(3, room=[0, 1, 3])) == [(2, "g0-r03-k0-m0")]
