"""The visual observation and its network."""

import numpy as np
import pytest

from questloop.env.game_env import GameEnv
from questloop.env.streams import slot_streams
from questloop.env.visual import HEIGHT, SHAPE, STACK, WIDTH, grey
from questloop.settings import load

N, LENGTH = 2, 9


@pytest.fixture
def settings():
    return load(
        flags={
            "observation": "visual",
            "episode_length": LENGTH,
            "batch_size": 32,
            "minibatch_size": 16,
            "ppo_epochs": 1,
        }
    )


@pytest.fixture
def env(settings):
    env = GameEnv(N, settings.game, settings.rewards, visual=True)
    env.seed(slot_streams(0, 0, N))
    yield env
    env.close()


def step(env, action):
    obs, reward, boundary = np.zeros((N, *SHAPE), np.uint8), np.zeros(N, np.float32), np.zeros(N, np.uint8)
    env.step(np.full(N, action, np.uint8), obs, reward, boundary)
    return obs, boundary


def test_four_frames_are_stacked_the_newest_last(env):
    first = np.zeros((N, *SHAPE), np.uint8)
    env.reset(first)
    assert not first[:, :STACK].any()
    seen = [step(env, action)[0] for action in (3, 3, 1, 1, 1)]
    for back in range(1, STACK):
        np.testing.assert_array_equal(seen[-1][:, STACK - 1 - back], seen[-1 - back][:, STACK - 1])
    np.testing.assert_array_equal(seen[-1][0, STACK - 1], grey(env.batch.frame(0)))
    assert len(np.unique(seen[-1][0, STACK - 1])) > 2


def test_memory_channels_show_the_room(env):
    env.reset(np.zeros((N, *SHAPE), np.uint8))
    for _ in range(4):
        obs, _ = step(env, 3)
    visited, solid, hero = obs[0, STACK:]
    tile = int(env.columns.tile[0])
    row, column = ((tile >> 4) * 2 + 1) * HEIGHT // 16, ((tile & 15) * 2 + 1) * WIDTH // 20
    assert hero[row, column] == 255
    assert 0 < (hero == 255).mean() < 0.03
    assert visited[row, column] == 255
    assert set(np.unique(solid)) <= {0, 63, 126, 189, 252}
    assert solid.any()


def test_a_truncated_episode_keeps_its_last_picture_and_its_vector(env):
    env.reset(np.zeros((N, *SHAPE), np.uint8))
    for _ in range(LENGTH):
        obs, boundary = step(env, 3)
    assert boundary.all()
    assert env.final_obs[:, :STACK].any()
    assert not obs[:, :STACK].any()
    assert not np.array_equal(env.final_features, env.features)


def test_going_on_from_a_state_equals_going_on(env, settings):
    env.reset(np.zeros((N, *SHAPE), np.uint8))
    for action in (3, 1, 0):
        step(env, action)
    other = GameEnv(N, settings.game, settings.rewards, visual=True)
    other.load_state_dict(env.state_dict())
    for action in (2, 2, 4):
        np.testing.assert_array_equal(step(env, action)[0], step(other, action)[0])
    other.close()
