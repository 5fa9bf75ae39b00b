"""An observation moved to another room and stage."""

import numpy as np

from questloop.game.columns import Columns
from questloop.game.imagination import imagine
from questloop.game.observation import DIMENSIONS, INDEX, OBSERVATION_SIZE, Encoder
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom

PROFILE = profile_for(Rom.load(None))


def observed(group, room, milestones):
    columns = Columns.zeros(1)
    columns.group[0], columns.room[0] = group, room
    columns.milestones[0] = sum(
        1 << bit for bit, each in enumerate(PROFILE.milestones) if each.key in milestones
    )
    out = np.zeros((1, OBSERVATION_SIZE), np.float32)
    Encoder(1, PROFILE, 4).encode(columns, np.zeros(1, np.uint8), out)
    return out[0]


def test_place_and_quest_are_those_of_the_other_state_and_all_else_stays():
    base = np.random.default_rng(0).uniform(-1, 1, OBSERVATION_SIZE).astype(np.float32)
    moved = imagine(base, PROFILE, 0x4_21, ["met_elder", "sword_1"])
    there = observed(4, 0x21, ["met_elder", "sword_1"])
    told = [name for name in INDEX if name.startswith(("room_bit", "group", "quest"))]
    assert len(told) > 8
    for dimension in DIMENSIONS:
        at = INDEX[dimension.name]
        assert moved[at] == (there if dimension.name in told else base)[at], dimension.name


def test_where_it_is_already_nothing_moves():
    here = observed(0, 0x21, ["met_elder"])
    np.testing.assert_array_equal(imagine(here, PROFILE, 0x0_21, ["met_elder"]), here)
