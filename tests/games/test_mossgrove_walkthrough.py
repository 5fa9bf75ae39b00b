"""The shipped inputs play the shipped ROM from power-on to the end."""

import pytest

from questloop.game.profiles.mossgrove import PROFILE


@pytest.mark.slow
def test_walkthrough_fires_each_milestone_once_and_in_order(trace):
    latched, order = 0, []
    for holding in PROFILE.columns(trace.taps).milestones.tolist():
        order += PROFILE.milestone_names(holding & ~latched)
        latched |= holding
    assert order == [milestone.key for milestone in PROFILE.milestones]
