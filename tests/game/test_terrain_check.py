"""What a profile's check finds in its terrain, and that games added by one file are whole."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from questloop.game.actions import Chord, policy_actions
from questloop.game.columns import Columns
from questloop.game.profile import Milestone, Profile, at_least
from questloop.game.profile_check import faults
from questloop.game.profiles import profiles
from questloop.game.profiles.named import named_profile
from questloop.game.taps import Tap, TapLayout
from questloop.game.terrain import PuzzleRoom, Riddle, Terrain

LAYOUT = TapLayout([Tap("x", None, 0xC000), Tap("coins", None, 0xC001)])


def decode(taps):
    columns = Columns.zeros(len(taps))
    columns.x = taps[:, 0].astype(np.int32)
    return columns


SOUND = Profile(
    name="small",
    titles=("SMALL",),
    layout=LAYOUT,
    decode=decode,
    milestones=(Milestone("coin", "Found a coin", (at_least("coins", 1),)),),
)
WRONG = [
    ({"terrain": Terrain(pits=frozenset({1}))}, "needs the detail tap room_layout"),
    ({"terrain": Terrain(modes={1: Terrain()})}, "needs the detail tap active_collisions"),
    (
        {"terrain": Terrain(pits=frozenset({7}), chests=frozenset({7}))},
        "metatile 07 is of several kinds (pits, chests)",
    ),
    (
        {"terrain": Terrain(modes={2: Terrain(pits=frozenset({7}), chests=frozenset({7}))})},
        "terrain of mode 2: metatile 07",
    ),
    ({"terrain": Terrain(pits=frozenset({300}))}, "metatile 300 is no byte"),
    ({"terrain": Terrain(puzzles={(8, 0): PuzzleRoom(Riddle.CHEST, 1)})}, "puzzle room 8:00 is no room"),
    (
        {"terrain": Terrain(puzzles={(0, 0): PuzzleRoom(Riddle.TORCHES, 1, needs="oil")})},
        "needs 'oil', which is no item",
    ),
    ({"action_mask": np.ones(9, np.bool_)}, "action_mask is bool[9]"),
]


def test_a_sound_profile_has_no_faults():
    assert faults(SOUND) == []
    assert faults(dataclasses.replace(SOUND, action_mask=policy_actions(Chord.SELECT))) == []


@pytest.mark.parametrize("profile", profiles(), ids=lambda profile: profile.name)
def test_known_games_have_none(profile):
    assert faults(profile) == []


def test_the_added_game_has_none():
    assert faults(named_profile(str(Path(__file__).parents[2] / "games/ninecoins/ninecoins.py"))) == []


@pytest.mark.parametrize(("change", "fault"), WRONG)
def test_a_fault_names_what_is_wrong(change, fault):
    found = faults(dataclasses.replace(SOUND, **change))
    assert any(fault in each for each in found), found
