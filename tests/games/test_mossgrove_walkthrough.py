"""The shipped inputs play the shipped ROM from power-on to the end."""

from importlib import resources

import numpy as np
import pytest

from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom


@pytest.mark.slow
def test_walkthrough_fires_each_milestone_once_and_in_order():
    script = (resources.files("questloop.game") / "roms" / PROFILE.walkthrough).read_text("utf-8")
    emulator = Emulator(Rom.load(None), PROFILE.layout)
    row = np.zeros((1, PROFILE.layout.size), np.uint8)
    latched, order = 0, []
    for item in steps(parse_inputs(script), 4):
        emulator.step(item.action, item.frames)
        emulator.read(row[0])
        holding = int(PROFILE.columns(row).milestones[0])
        order += PROFILE.milestone_names(holding & ~latched)
        latched |= holding
    emulator.close()
    assert order == [milestone.key for milestone in PROFILE.milestones]
