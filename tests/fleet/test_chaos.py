"""The shortened form of `make chaos`."""

import pytest

from .chaos import chaos, went_well


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
async def test_nothing_is_lost_or_run_twice_under_faults():
    result = await chaos(seed=0, scale="tiny")
    assert went_well(result), result
