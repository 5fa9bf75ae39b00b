"""A learner and a runner without a Ray cluster."""

import functools

import gymnasium as gym
import numpy as np
import pytest

from questloop.training.algorithm import QuestConfig
from questloop.training.toys import Corridor


def corridor_config(length=6, slots=8, steps=32, seed=0, **training):
    config = QuestConfig().play(
        functools.partial(Corridor, length=length),
        gym.spaces.Box(0, 1, (length,), np.float32),
        gym.spaces.Discrete(2),
        rollout_steps=steps,
    )
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=slots)
    config.training(**({"lr": 1e-3, "num_epochs": 4, "minibatch_size": 64} | training))
    return config.debugging(seed=seed)


@pytest.fixture
def make_config():
    return corridor_config
