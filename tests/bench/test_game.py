"""The two loads of the bench."""

import numpy as np
import pytest

from questloop.bench import game

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def busy():
    return game.bench_starts(True)


def test_the_busy_byte_outlives_a_reset(busy):
    env = game.bench_env(2, busy)
    obs = np.zeros((2, 128), np.float32)
    env.reset(obs)
    assert env.batch.emulators[1].peek(game.BUSY_MODE) == b"\x01"
    env.batch.reset(1, busy.states[0].state)
    assert env.batch.emulators[1].peek(game.BUSY_MODE) == b"\x01"
    env.close()


def test_an_emulator_takes_less_than_30_mb():
    fresh, after = game.emulator_mb(game.bench_starts(False), emulators=4, frames=400)
    assert 0 < fresh < 30
    assert after < 30
