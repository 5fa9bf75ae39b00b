"""From the grotto's slimes to the Morning Light: takeovers solve riddles, and steps lead on between them."""

import numpy as np
import pytest

from questloop.game.actions import Action
from questloop.game.profiles.mossgrove import PROFILE
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.executor import Executor
from questloop.planner.plan import parse_plan
from questloop.planner.takeover import Takeovers

WAY = {
    0x22: [{"do": "EXIT", "direction": "left"}],
    0x21: [{"do": "MOVE_TO", "row": 1, "column": 4}],
    0x11: [{"do": "EXIT", "direction": "up"}],
    0x01: [{"do": "EXIT", "direction": "left"}],
    0x00: [{"do": "MOVE_TO", "row": 4, "column": 4}],
}
"""where a policy would walk in each room; then it holds UP"""


def walk(table, takeovers):
    """The buttons of the executor in the policy's place, until it is out of the room or a takeover begins."""
    plan = parse_plan({"macros": WAY[int(table.columns.room[0])]})
    walking = Executor(plan, table.scene, PROFILE, 4).run()
    table.batch.scripts[0] = lambda: walking.send(table.scene)
    try:
        button = next(walking)
        while act(table, takeovers, button):
            button = walking.send(table.scene)
    except StopIteration:
        table.batch.scripts.clear()
    for _ in range(96 // table.frame_skip):
        act(table, takeovers, Action.UP)


def act(table, takeovers, button):
    """A step; whether the policy played it."""
    action, mask = np.array([button], np.uint8), np.ones(1, np.bool_)
    takeovers.act(action, mask)
    table.step(int(action[0]))
    return bool(mask[0])


@pytest.mark.slow
def test_the_grotto_is_played_to_its_essence_at_every_frame_skip(skipping, found):
    skipping.set_up(found["room 4:22"], 0)
    takeovers = Takeovers(skipping, EmbeddedPlanner(), skipping.frame_skip)
    for _ in range(40):
        while not act(skipping, takeovers, Action.NOP):
            pass
        if skipping.columns.essences[0]:
            break
        if skipping.columns.has_control[0]:
            walk(skipping, takeovers)
    outcomes = takeovers.report().outcomes
    assert skipping.columns.essences[0] == 1
    assert outcomes["puzzle solved"] == 2
    assert set(outcomes) == {"puzzle solved", "dialog solved"}
