"""The visual observation and its network."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.core.learner.training_data import TrainingData

from questloop.settings import load
from questloop.training import versions
from questloop.training.autoscale import Layout
from questloop.training.game_env import GameEnv
from questloop.training.learner import as_rllib
from questloop.training.shaper import Shaper
from questloop.training.streams import slot_streams
from questloop.training.trainer import quest_config
from questloop.training.visual import HEIGHT, SHAPE, STACK, WIDTH, grey
from questloop.training.world import game_world

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


def test_it_trains_with_curiosity_and_shaping_on_the_vectors(settings, make_learner):
    world = game_world(settings)
    assert world.policy_version == versions.VISUAL
    assert isinstance(world.observation_space, gym.spaces.Box)
    config = quest_config(settings, world, Layout(1, N, 16), seed=0)
    config.env_runners(num_env_runners=0)
    config.record = False
    runner, learner = make_learner(config)

    class Slope:
        sha256, observation_version, accuracy, accuracy_low = "a" * 64, 1, 0.9, 0.8
        gold_accuracy, gold_high = 0.7, 0.8

        def __call__(self, obs):
            assert obs.shape[1] == 128
            return obs[:, 0]

    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    for _ in range(2):
        rollout = runner.sample(16, learner.module.get_state()).rollout
        learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))
        learner.set_shaper(Shaper.of(Slope(), coef=1.0))
    assert {"curiosity_mean", "shaping_mean", "refit_residual"} <= set(learner.statistics)
    moved = [not torch.equal(a, b) for a, b in zip(before, learner.network.parameters(), strict=True)]
    assert all(moved)
    runner.stop()
