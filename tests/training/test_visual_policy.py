"""A policy that plays by pictures learns, with curiosity and shaping on the vectors beside them."""

import gymnasium as gym
import pytest
import torch
from ray.rllib.core.learner.training_data import TrainingData

from questloop.env import observers
from questloop.env.world import game_world
from questloop.settings import load
from questloop.training.autoscale import Layout
from questloop.training.learner import as_rllib
from questloop.training.shaper import Shaper
from questloop.training.trainer import quest_config

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


def test_it_trains_with_curiosity_and_shaping_on_the_vectors(settings, make_learner):
    world = game_world(settings)
    assert world.policy_version == observers.VISUAL
    assert isinstance(world.observation_space, gym.spaces.Box)
    config = quest_config(settings, world, Layout(1, N, 16), seed=0)
    config.env_runners(num_env_runners=0)
    config.record = False
    runner, learner = make_learner(config)

    class Slope:
        sha256, observation_version, accuracy, accuracy_low = "a" * 64, 1, 0.9, 0.8
        trust, trust_low = 0.9, 0.8

        def __call__(self, obs):
            assert obs.shape[1] == 128
            return obs[:, 0]

    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    for _ in range(2):
        rollout = runner.sample(16, learner.module.get_state()).rollout
        learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))
        learner.set_shaper(Shaper.of(Slope(), coef=1.0))
    assert {"curiosity_mean", "shaping_mean"} <= set(learner.statistics)
    moved = [not torch.equal(a, b) for a, b in zip(before, learner.network.parameters(), strict=True)]
    assert all(moved)
    runner.stop()
