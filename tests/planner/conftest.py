"""Dialogs and puzzle rooms of Mossgrove, found once."""

import pytest
from benchmarks.planner.trials import Table, trials

from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom


@pytest.fixture(scope="session")
def found():
    return {trial.name: trial for trial in trials(Rom.load(None), PROFILE)}


@pytest.fixture
def table():
    table = Table(Rom.load(None), PROFILE)
    yield table
    table.close()


@pytest.fixture(params=[4, 8, 16])
def skipping(request):
    """A table whose steps have so many frames."""
    table = Table(Rom.load(None), PROFILE, request.param)
    yield table
    table.close()
