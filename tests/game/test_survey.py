"""The block that the doctor prints, on the stand-in's ROM and on one whose metatiles differ."""

import dataclasses

import pytest
from games.standin.build import KEPT
from tests.standin import facts, images, rules, scene_of_image

from questloop.game.opening import play_opening
from questloop.game.profiles.oracle_of_seasons import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, StartState
from questloop.game.survey import BEGIN, END, Survey, survey


@pytest.fixture(scope="module")
def start():
    return StartState(BEGINNING, play_opening(Rom.load(KEPT), PROFILE).state)


def test_the_stand_in_agrees_with_the_profile(start):
    block = survey(Rom.load(KEPT), PROFILE, [start], 400, [])
    lines = block.splitlines()
    assert (lines[0], lines[-1]) == (BEGIN, END)
    assert "gates: quiet" in block
    assert "profile oracle_of_seasons" in block
    assert "0:b6" in block
    assert "mode 0: as expected" in block
    assert "other than expected none" in block
    assert str(KEPT.parent) not in block, "no path of the user's machine"


def test_the_gates_findings_stand_in_it(start):
    assert "gates: start: x: why" in survey(Rom.load(KEPT), PROFILE, [start], 16, ["start: x: why"])


def test_what_is_other_than_the_terrain_says_is_named():
    floor, wall = facts.PLAIN_FLOOR, facts.PLAIN_WALL
    tiles = [[floor] * 10 for _ in range(8)]
    tiles[2][2], tiles[2][3], tiles[2][4] = 0xF3, 0xF1, wall
    collisions = [[0] * 10 for _ in range(8)]
    collisions[2][2], collisions[2][3], collisions[2][4] = 0x0F, 0, 0x0F
    made = rules.Rules(facts.DUNGEON, 4, tuple(map(tuple, tiles)), tuple(map(tuple, collisions)))
    seen = Survey(PROFILE)
    scene = scene_of_image(images.image(made, (6, 1)))
    seen.add(scene.state, dict(scene.details))
    text = "\n".join(seen.lines())
    assert "other than expected chests f1 x1 (1 open), pits f3 x1 (1 solid)" in text
    assert f"solid metatiles of no kind: {wall:02x}" in text
    assert f"open metatiles of no kind: {floor:02x}" in text


def test_nothing_is_said_of_moments_without_control():
    seen = Survey(PROFILE)
    state = dataclasses.replace(scene_of_image(images.Image()).state, has_control=False)
    seen.add(state, {"room_layout": bytes(176)})
    assert "control in 0; rooms none" in seen.lines()[0]
