"""A learner and a runner without a Ray cluster."""

import functools

import gymnasium as gym
import numpy as np
import pytest

from questloop.env.toys import Corridor
from questloop.training.algorithm import QuestConfig
from questloop.training.runner import QuestRunner


def corridor_config(length=6, slots=8, steps=32, seed=0, limit=50, **training):
    config = QuestConfig().play(
        functools.partial(Corridor, length=length, limit=limit),
        gym.spaces.Box(0, 1, (length,), np.float32),
        gym.spaces.Discrete(2),
        rollout_steps=steps,
    )
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=slots)
    config.training(**({"lr": 1e-3, "num_epochs": 4, "minibatch_size": 64} | training))
    return config.debugging(seed=seed)


def build_learner(config=None, cls=None):
    config = config or corridor_config()
    runner = QuestRunner(config=config, worker_index=0)
    spec = config.get_multi_rl_module_spec(spaces=runner.get_spaces())
    learner = (cls or config.learner_class)(config=config, module_spec=spec)
    learner.build()
    return runner, learner


@pytest.fixture
def make_config():
    return corridor_config


@pytest.fixture
def make_learner():
    return build_learner
