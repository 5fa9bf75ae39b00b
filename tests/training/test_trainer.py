"""Epochs: counts, checkpoints, exact resume, lost runners."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import ray
from safetensors.numpy import load

from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.training.plan import EpochPlan
from questloop.training.toys import Corridor
from questloop.training.trainer import Trainer
from questloop.training.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

CORRIDOR = World(
    name="corridor",
    build=functools.partial(Corridor, length=6),
    observation_space=gym.spaces.Box(0, 1, (6,), np.float32),
    action_space=gym.spaces.Discrete(2),
    observation_version=1,
)


def settings(**values):
    return Settings(
        **{
            "ray_workers": 2,
            "envs_per_worker": 4,
            "batch_size": 128,
            "minibatch_size": 64,
            "ppo_epochs": 2,
            "lr": 1e-3,
        }
        | values
    )


def plan(epoch, steps=256, **values):
    return EpochPlan(
        **{
            "run": "r",
            "epoch": epoch,
            "fence": 1,
            "seed": 5,
            "step_start": epoch * steps,
            "step_end": (epoch + 1) * steps,
        }
        | values
    )


@pytest.fixture(scope="module", autouse=True)
def _ray():
    yield
    ray.shutdown()


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def policy(store, epoch):
    return load(store.get(keys.checkpoint(epoch, "policy.safetensors")))


def test_two_epochs_equal_an_epoch_a_restore_and_an_epoch(store, tmp_path):
    with Trainer(settings(), store, CORRIDOR) as trainer:
        trainer._started_ray = False
        trainer.run_epoch(plan(0))
        straight = trainer.run_epoch(plan(1))
    other = open_store(str(tmp_path / "other"))
    for epoch in (0, 1):
        with Trainer(settings(), other, CORRIDOR) as trainer:
            resumed = trainer.run_epoch(plan(epoch))
            trainer._started_ray = False
    assert resumed.step_end == straight.step_end == 512
    assert resumed.trajectory_hashes == straight.trajectory_hashes
    assert resumed.losses == straight.losses
    assert resumed.return_mean == straight.return_mean
    for name, weights in policy(store, 1).items():
        np.testing.assert_array_equal(weights, policy(other, 1)[name])
    assert store.get(keys.checkpoint(1, "optimizer.safetensors")) == other.get(
        keys.checkpoint(1, "optimizer.safetensors")
    )
