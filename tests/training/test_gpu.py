"""The learner on a GPU: the same figures as on the CPU, and one line where there is none."""

import re
from argparse import Namespace

import pytest
import torch
from benchmarks.training import gpu
from ray.rllib.core.learner.torch import torch_learner
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.env.world import game_world
from questloop.errors import UsageError
from questloop.settings import load
from questloop.training.autoscale import Layout
from questloop.training.trainer import quest_config

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU and a CUDA build of torch")


@pytest.mark.parametrize(
    ("observation", "device"),
    [
        ("vector", "cpu"),
        pytest.param("vector", "cuda", marks=needs_gpu),
        pytest.param("visual", "cuda", marks=needs_gpu),
    ],
)
@pytest.mark.slow
def test_a_device_gives_the_figures_of_the_cpu_and_its_checkpoint_goes_on_there(observation, device):
    found = gpu._parity(observation, Namespace(device=device, tiny=True, updates=1))
    assert found["within_tolerance"], found
    assert found["same_twice"]
    assert found["cpu_goes_on_from_it"]


def test_learners_that_differ_are_seen():
    settings = load(flags={"batch_size": 64, "minibatch_size": 32})
    runner, one = gpu.build(settings, Layout(0, 2, 32), "cpu")
    other = gpu.build(settings, Layout(0, 2, 32), "cpu")[1]
    gpu.copy_state(one, other)
    gpu.learn(other, runner.sample(32, one.module.get_state()).rollout)
    assert not gpu._same(gpu.weights(one), gpu.weights(other))
    assert {name.split(".")[0] for name in gpu.weights(one)} == {"policy", "critic", "predictor"}
    runner.stop()


NO_GPU = r"LEARNER_GPUS=1: no GPU can be used here, since .*; set LEARNER_GPUS=0"


@pytest.mark.parametrize(("asked", "answer"), [("1", NO_GPU), ("2", "uses one GPU; set 1")])
@pytest.mark.parametrize("command", ["rollouts", "pipeline"])
def test_without_a_gpu_it_is_one_line_and_nothing_is_written(command, asked, answer, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("LEARNER_GPUS", asked)
    store = tmp_path / "store"
    result = CliRunner().invoke(app, [command, "--store", str(store)])
    assert isinstance(result.exception, UsageError)
    assert re.search(answer, str(result.exception))
    assert "\n" not in str(result.exception)
    assert not store.exists()


def test_a_gpu_is_asked_of_rllib_and_not_for_runners(monkeypatch, make_learner):
    """The device is a stand-in: the CPU."""
    asked = []

    def get_device(config, number):
        asked.append(number)
        return torch.device("cpu")

    monkeypatch.setattr(torch_learner, "get_device", get_device)
    settings = load(flags={"learner_gpus": 1, "batch_size": 64, "minibatch_size": 32})
    config = quest_config(settings, game_world(settings), Layout(1, 2, 32), seed=0)
    config.validate()
    assert config.num_gpus_per_env_runner == 0
    config.env_runners(num_env_runners=0)
    config.record = False
    runner, _ = make_learner(config)
    runner.stop()
    assert set(asked) == {1}


@pytest.mark.parametrize("observation", ["vector", "visual"])
def test_random_rollouts_have_the_shape_of_played_ones(observation):
    settings = load(flags={"batch_size": 16, "minibatch_size": 16, "observation": observation})
    runner, learner = gpu.build(settings, Layout(0, 2, 8), "cpu")
    played, random = runner.sample(8, learner.module.get_state()).rollout, gpu._noise(runner, 8, 2)
    for name in ("observations", "action", "logp", "reward", "features"):
        one, other = getattr(played, name), getattr(random, name)
        assert (one is None) == (other is None), name
        assert one is None or (one.shape, one.dtype) == (other.shape, other.dtype), name
    gpu.learn(learner, random)
    runner.stop()
