"""The two loads of the bench."""

import numpy as np
import pytest

from questloop.training.bench import game

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


def test_a_busy_game_costs_more_to_emulate(busy):
    shipped = game.bench_starts(False)
    ratio = {}
    for name, starts in (("busy", busy), ("shipped", shipped)):
        env = game.bench_env(4, starts)
        env.reset(np.zeros((4, 128), np.float32))
        rows = np.zeros((40, 4), np.uint8)
        ratio[name] = game._cpu_seconds(
            lambda _, env=env: [each.tick(4) for each in env.batch.emulators], rows
        )
        env.close()
    assert ratio["busy"] > 1.5 * ratio["shipped"]


def test_a_step_costs_little_beyond_the_emulator(busy):
    (ratio,) = game.env_step_ratio(busy, rounds=1, vector_steps=20)
    assert 0.5 < ratio < 1.1


def test_an_emulator_takes_less_than_30_mb():
    fresh, after = game.emulator_mb(game.bench_starts(False), emulators=4, frames=400)
    assert 0 < fresh < 30
    assert after < 30
