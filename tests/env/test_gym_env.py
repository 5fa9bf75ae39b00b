"""The registered environments."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import questloop.env.gym_env as quest
from questloop.errors import UsageError

LENGTH = 12


@pytest.fixture
def vector():
    env = gym.make_vec(quest.MOSSGROVE, num_envs=3, episode_length=LENGTH)
    yield env
    env.close()


def test_passes_gymnasiums_check():
    env = gym.make(quest.MOSSGROVE, render_mode="rgb_array", disable_env_checker=True)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_an_episode_is_truncated_at_its_length_and_rendered():
    env = gym.make(quest.MOSSGROVE, render_mode="rgb_array", episode_length=LENGTH)
    env.reset(seed=1)
    for step in range(LENGTH):
        obs, _, terminated, truncated, info = env.step(step % 8)
    assert truncated
    assert not terminated
    assert env.render().shape == (144, 160, 3)
    assert set(info["reward_parts"]) >= {"room", "tile", "essence"}
    again, _ = env.reset(seed=1)
    assert not np.array_equal(obs, again)
    env.close()


def test_autoreset_keeps_the_final_observation(vector):
    first, _ = vector.reset(seed=0)
    single = gym.make(quest.MOSSGROVE, episode_length=LENGTH)
    single.reset(seed=0)
    for step in range(LENGTH):
        obs, _, _, truncated, info = vector.step(np.full(3, step % 4))
        true_obs, *_ = single.step(step % 4)
    assert truncated.all()
    assert info["_final_obs"].all()
    np.testing.assert_array_equal(info["final_obs"], np.stack([true_obs] * 3))
    np.testing.assert_array_equal(obs, first)
    single.close()


def test_next_step_autoreset_returns_the_final_observation_then_the_first():
    env = quest.QuestVectorEnv(2, autoreset_mode=AutoresetMode.NEXT_STEP, episode_length=LENGTH)
    env.reset(seed=0)
    for _ in range(LENGTH):
        obs, _, _, truncated, info = env.step(np.full(2, 3))
    assert truncated.all()
    assert not info
    after, reward, terminated, truncated, _ = env.step(np.full(2, 3))
    assert not np.array_equal(obs, after)
    assert not np.concatenate([reward, terminated, truncated]).any()
    env.close()


def test_an_unknown_setting_is_named():
    with pytest.raises(UsageError, match="reward_roomm"):
        quest.QuestEnv(reward_roomm=1)


def test_oracle_of_seasons_asks_for_a_rom():
    with pytest.raises(UsageError, match="ROM_PATH"):
        gym.make(quest.ORACLE_OF_SEASONS)
