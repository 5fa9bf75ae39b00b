"""Which riddles a takeover solves: those that the guide's aims lie in or behind."""

from dataclasses import replace

import numpy as np
import pytest

from questloop.game.actions import Action
from questloop.game.profiles.mossgrove import PROFILE
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.takeover import Takeovers
from questloop.planner.wanted import Wanted, next_aim

KEYS = [milestone.key for milestone in PROFILE.milestones]


def wanted(table, profile=PROFILE, milestones=None):
    """What is said of the room that `table` shows, after other `milestones`."""
    columns, scene = table.columns, table.scene
    if milestones is not None:
        columns.milestones[0] = sum(1 << KEYS.index(key) for key in milestones)
        scene = replace(scene, state=replace(scene.state, milestones=tuple(milestones)))
    return Wanted(1, profile)(columns, 0, lambda: scene)


@pytest.mark.parametrize("room", ["4:22", "4:11", "5:30", "5:32", "5:22", "5:20", "5:11"])
def test_every_riddle_is_wanted_when_the_walkthrough_comes_to_it(table, found, room):
    table.set_up(found[f"room {room}"], 0)
    assert wanted(table)


@pytest.mark.parametrize(
    ("room", "last", "expected"),
    [
        ("5:32", "vault_entered", False),  # the stone room comes first, and its way is open
        ("5:32", "vault_door", True),  # the button opens the way to the lanterns
        ("5:30", "vault_stone", True),  # the next aim needs the key that lies here
        ("5:30", "vault_door", False),
        ("4:22", "met_elder", False),  # nobody without a blade is sent here
        ("4:22", "sword_1", True),
        ("4:22", "grotto_key", True),  # the door needs the key of this room's chest
        ("4:11", "essence_1", False),  # what lies behind is done
    ],
)
def test_a_riddle_is_wanted_where_an_aim_lies_in_it_or_behind_it(table, found, room, last, expected):
    table.set_up(found[f"room {room}"], 0)
    assert wanted(table, milestones=KEYS[: KEYS.index(last) + 1]) is expected


@pytest.mark.parametrize("profile", [replace(PROFILE, guide=None)])
def test_without_a_guide_every_riddle_is_wanted(table, found, profile):
    table.set_up(found["room 5:32"], 0)
    assert wanted(table, profile, milestones=KEYS[: KEYS.index("vault_entered") + 1])


def test_the_next_aim_follows_the_last_one_done():
    assert next_aim(PROFILE.guide, []).key == KEYS[0]
    assert next_aim(PROFILE.guide, ["sword_1"]).key == "grotto_entered"
    assert next_aim(PROFILE.guide, [aim.key for aim in PROFILE.guide.aims]) is None


def test_a_riddle_that_is_not_wanted_is_left_to_the_policy_until_its_fight_has_begun(table, found):
    table.set_up(found["room 4:22"], 0)
    done = tuple(key for key in KEYS if key != "grotto_key")
    table.profile = replace(PROFILE, guide=replace(PROFILE.guide, aims=tuple(
        aim for aim in PROFILE.guide.aims if aim.key not in ("grotto_key", "grotto_door"))))  # fmt: skip
    takeovers = Takeovers(table, EmbeddedPlanner(), 4)
    masks = []
    for step in range(40):
        action, mask = np.array([Action.NOP], np.uint8), np.ones(1, np.bool_)
        table.columns.milestones[0] = sum(1 << KEYS.index(key) for key in done)
        if step == 20:
            assert table.columns.enemies[0] == 2
        if step >= 20:
            table.columns.enemies[0] = 1
        takeovers.act(action, mask)
        masks.append(bool(mask[0]))
        table.step(int(action[0]))
    assert masks[:22] == [True] * 22
    assert not any(masks[22:])


def test_a_takeover_does_not_look_at_the_room_at_every_step(table, found):
    """What is said of a room is kept as long as nothing in it moves."""
    table.set_up(found["room 4:22"], 0)
    each, asked = Wanted(1, PROFILE), []

    def scene():
        asked.append(1)
        return table.scene

    assert {each(table.columns, 0, scene) for _ in range(20)} == {True}
    assert len(asked) == 1
