"""Epochs: counts, checkpoints, exact resume, lost runners."""

import json
import os
import shutil
import signal
from dataclasses import replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import ray
import torch

from questloop.env.streams import slot_streams
from questloop.env.toys import Corridor
from questloop.env.world import World, game_world
from questloop.errors import BadDataError
from questloop.game.guide import NOWHERE
from questloop.reward_model.network import Ensemble, Measured, RewardModel, RewardReading
from questloop.setting_types import Shaping
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.training.autoscale import Layout
from questloop.training.checkpoint import Checkpoint, write_checkpoint
from questloop.training.cluster import start_ray
from questloop.training.epoch_plan import EpochPlan
from questloop.training.player import load_player
from questloop.training.trainer import Trainer

pytestmark = pytest.mark.slow

CORRIDOR = World(
    name="corridor",
    build=partial(Corridor, length=6),
    observation_space=gym.spaces.Box(0, 1, (6,), np.float32),
    action_space=gym.spaces.Discrete(2),
    observation_version=1,
    policy_version="corridor-1",
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
    start_ray(settings().training)
    yield
    ray.shutdown()


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def put_reward_model(store, epoch, seed, size=6, version=1):
    """A reward model that orders by chance but claims to be good; the digest of its file."""
    generator = torch.Generator().manual_seed(seed)
    model = RewardModel(
        Ensemble(torch.zeros(size), torch.ones(size), generator),
        torch.randn(64, size, generator=generator),
        reading=RewardReading.MEAN,
        observation_version=version,
        measured=Measured(0.8, 0.7, 0.8, 0.7),
    )
    return store.put(keys.reward_model(epoch), model.to_bytes()).sha256


@pytest.mark.parametrize("shaping", Shaping)
def test_a_run_and_an_interrupted_one_agree_exactly(store, tmp_path, shaping):
    """Three epochs, the second and third under potentials of their own, curiosity on."""
    digests = [None, *(put_reward_model(store, epoch, seed=epoch) for epoch in (0, 1))]
    plans = [plan(epoch, reward_model_sha256=digest) for epoch, digest in enumerate(digests)]
    with Trainer(settings(shaping=shaping), store, CORRIDOR) as trainer:
        for each in plans[:2]:
            trainer.run_epoch(each)
        shutil.copytree(tmp_path / "store", tmp_path / "other")
        straight = trainer.run_epoch(plans[2])
    other = open_store(str(tmp_path / "other"))
    with Trainer(settings(shaping=shaping), other, CORRIDOR) as trainer:
        resumed = trainer.run_epoch(plans[2])
    assert _timeless(straight) == _timeless(resumed)
    assert straight.step_end == 768
    assert straight.shaping_weight == pytest.approx(0.6)
    assert (straight.losses.get("refit_residual", 0) > 0) is (shaping is Shaping.POTENTIAL)
    for name in ("policy", "optimizer", "curiosity", "slots"):
        key = keys.checkpoint(2, f"{name}.safetensors")
        assert store.get(key) == other.get(key)


def test_where_judges_lead_is_exact_on_resume_and_waits_for_trust(store, tmp_path):
    values = {"aims": "judges", "rnd_coef": 0, "frame_skip": 16, "ray_workers": 0, "planner": False}
    world = replace(game_world(settings(**values)), recording=None)
    places = (0x020,) * len(world.aims)
    digest = put_reward_model(store, 0, seed=1, size=128, version=world.observation_version)
    plans = [plan(0, aims=places), *(plan(e, aims=places, reward_model_sha256=digest) for e in (1, 2))]
    with Trainer(settings(**values), store, world) as trainer:
        reports = [trainer.run_epoch(each) for each in plans[:2]]
        shutil.copytree(tmp_path / "store", tmp_path / "other")
        straight = trainer.run_epoch(plans[2])
    assert [report.judged_aims for report in reports] == [{}, dict.fromkeys(world.aims, "0:20")]
    other = open_store(str(tmp_path / "other"))
    with Trainer(settings(**values), other, world) as trainer:
        assert _timeless(trainer.run_epoch(plans[2])) == _timeless(straight)
    assert load_player(store, 0, 0).aims == [NOWHERE] * len(places)
    assert load_player(store, 2, 0).aims == list(places)


def _timeless(report):
    document = report.to_json()
    del document["seconds"], document["steps_per_second"]
    for point in document["curve"]:
        del point["steps_per_second"]
    json.dumps(document, allow_nan=False)
    return document


def test_the_step_count_goes_on_when_a_runner_is_killed(store):
    killed, seen = [], []

    def kill_once(progress):
        seen.append(progress.step)
        if not killed:
            pids = trainer.algorithm.env_runner_group.foreach_env_runner(
                lambda runner: (runner.index, os.getpid()), local_env_runner=False
            )
            killed.append(dict(pids)[1])
            os.kill(killed[0], signal.SIGKILL)

    with Trainer(settings(), store, CORRIDOR) as trainer:
        report = trainer.run_epoch(plan(0, steps=512), kill_once)
        assert report.step_end == 512
        assert seen == [128, 256, 384, 512]
        assert report.runners_lost == 1
        after = trainer.run_epoch(plan(1, steps=512))
    assert after.step_end == 1024
    assert after.runners_lost == 0
    assert len(set(report.trajectory_hashes)) == 8
    assert {item.key for item in report.objects} >= {
        keys.checkpoint(0, name) for name in ("policy.safetensors", "state.json", "algorithm_state.pkl")
    }


def test_another_observation_version_is_refused_before_anything_is_started(store):
    write_checkpoint(store, 0, Checkpoint("corridor-2", {}, {}, {}, {}))
    with (
        Trainer(settings(), store, CORRIDOR) as trainer,
        pytest.raises(BadDataError, match=r"corridor-2.*corridor-1"),
    ):
        trainer.run_epoch(plan(1))


@pytest.mark.parametrize(("resumed", "lines"), [(False, 2), (True, 0)])
def test_what_does_not_fit_together_is_told_before_anything_is_played(store, monkeypatch, resumed, lines):
    chosen = Settings(episode_length=40, epoch_steps=64, frame_skip=16)
    trainer, said = Trainer(chosen, store, game_world(chosen)), []
    trainer.layout = Layout(1, 8, 8)
    monkeypatch.setattr(trainer, "_go_to", lambda plan, announce: resumed)

    def played(plan, potential):
        raise InterruptedError

    monkeypatch.setattr(trainer, "_shaper", played)
    with pytest.raises(InterruptedError):
        trainer.run_epoch(plan(0, steps=64), announce=said.append)
    assert len(said) == lines
    assert all("to at least" in line for line in said)


@pytest.mark.parametrize(
    ("runners", "slots", "parts"),
    [(0, 2, {}), (0, 6, {"whiten": True}), (1, 4, {"rnd_coef": 0}), (1, 8, {})],
)
def test_a_store_goes_on_with_another_number_of_slots(store, runners, slots, parts):
    """As `auto` gives on a machine with other cores, or less free memory."""
    with Trainer(settings(ray_workers=0, envs_per_worker=4, **parts), store, CORRIDOR) as trainer:
        first = trainer.run_epoch(plan(0))
    with Trainer(settings(ray_workers=runners, envs_per_worker=slots, **parts), store, CORRIDOR) as trainer:
        second = trainer.run_epoch(plan(1))
    assert (first.step_end, second.step_start) == (256, 256)
    assert second.step_end >= 512
    assert not {*first.trajectory_hashes} & {*second.trajectory_hashes}
    # And back again, from a checkpoint of the other layout.
    with Trainer(settings(ray_workers=0, envs_per_worker=4, **parts), store, CORRIDOR) as trainer:
        assert trainer.run_epoch(plan(2, step_start=second.step_end, step_end=second.step_end + 256)).step_end


def test_new_slots_draw_numbers_that_none_has_drawn(store):
    with Trainer(settings(ray_workers=0, envs_per_worker=4), store, CORRIDOR) as trainer:
        trainer.run_epoch(plan(0))
    with Trainer(settings(ray_workers=0, envs_per_worker=2), store, CORRIDOR) as trainer:
        trainer.run_epoch(plan(1))
        new = trainer.algorithm.slot_states()[0]["streams"]
    old = [dict(stream.bit_generator.state) for stream in slot_streams(5, 0, 4)]
    assert not {state["state"]["inc"] for state in new} & {state["state"]["inc"] for state in old}
