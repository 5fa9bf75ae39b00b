"""Imitation of judged segments: returns, weights, losses, and where the segments come from."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ray.rllib.core.learner.training_data import TrainingData
from tests.pipeline.playing import play

from questloop.episodes.reader import SegmentReader
from questloop.errors import UsageError
from questloop.game.actions import Action
from questloop.judges.scores import read_scores
from questloop.settings import load
from questloop.storage.store import open_store
from questloop.training.imitation import AWR_MOST, Demonstration, demonstrations, weigh
from questloop.training.learner import as_rllib
from questloop.training.trainer import Trainer

GAMMA = 0.9
NUMBERS = st.floats(-100, 100, width=32)


def demonstration(reward, terminated=False, action=None, size=3):
    reward = np.asarray(reward, np.float32)
    action = np.zeros(len(reward), np.int64) if action is None else np.asarray(action, np.int64)
    return Demonstration(np.zeros((len(reward) + 1, size), np.float32), action, reward, terminated)


def test_returns_end_at_a_terminal_state_and_go_on_after_a_cut():
    assert demonstration([1, 0, 2], terminated=True).returns(50.0, GAMMA) == pytest.approx([2.62, 1.8, 2])
    assert demonstration([1, 0, 2]).returns(10.0, GAMMA) == pytest.approx([9.91, 9.9, 11])


@given(arrays(np.float32, 12, elements=NUMBERS), arrays(np.float32, 13, elements=NUMBERS))
def test_weights_are_bounded_and_rise_with_the_advantage(reward, value):
    item = demonstration(reward)
    found = weigh([item], [value], [np.zeros(13, np.float32)], GAMMA, sil_coef=1.0)
    advantage = item.returns(float(value[-1]), GAMMA) - value[:-1]
    assert 0 <= found.awr.min() <= found.awr.max() <= AWR_MOST
    assert (np.diff(found.awr.numpy()[np.argsort(advantage, kind="stable")]) >= -1e-4).all()
    assert np.allclose(found.gap, np.maximum(advantage, 0), atol=1e-3)


def test_a_potential_changes_no_weight():
    """A critic of shaped returns is lower by the potential everywhere."""
    item = demonstration([0, 1, 0, 1])
    value = np.array([1, 0.5, 2, 0, 3], np.float32)
    phi = np.array([0, 2, -1, 4, 1], np.float32)
    plain = weigh([item], [value], [np.zeros(5, np.float32)], GAMMA, 1.0)
    shaped = weigh([item], [value - phi], [phi], GAMMA, 1.0)
    assert torch.allclose(plain.awr, shaped.awr, atol=1e-5)
    assert torch.allclose(plain.gap, shaped.gap, atol=1e-5)
    assert torch.allclose(plain.target - torch.from_numpy(phi[:-1]), shaped.target, atol=1e-5)


def test_the_value_loss_pulls_up_only_what_is_too_low():
    item = demonstration([1.0], terminated=True)
    found = weigh([item], [np.zeros(2, np.float32)], [np.zeros(2, np.float32)], GAMMA, sil_coef=1.0)
    rows = torch.tensor([0])
    assert found.value_loss(torch.tensor([0.0]), rows) == pytest.approx(0.01 * 0.5)
    assert found.value_loss(torch.tensor([2.0]), rows) == 0


@pytest.mark.parametrize("sil_coef", [0.0, 0.5])
def test_the_policy_moves_towards_what_was_demonstrated(make_config, make_learner, sil_coef):
    """The corridor's action 0 leads away from its reward: plain PPO would not choose it."""
    probability = {}
    for demonstrated in (False, True):
        torch.manual_seed(0)
        runner, learner = make_learner(make_config())
        start = runner.sample(1, learner.module.get_state()).rollout.observations[0, 0]
        item = Demonstration(np.stack([start] * 9), np.zeros(8, np.int64), np.ones(8, np.float32), True)
        learner.demonstrations = (item,) if demonstrated else ()
        learner.sil_coef = sil_coef
        for _ in range(8):
            rollout = runner.sample(32, learner.module.get_state()).rollout
            learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))
        logits = learner.network.logits(torch.from_numpy(start)[None]).detach()
        probability[demonstrated] = float(torch.softmax(logits, -1)[0, 0])
    assert probability[True] > probability[False] + 0.1


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    store = open_store(str(tmp_path_factory.mktemp("judged")))
    play(store, slots=2, steps=600)
    command = [sys.executable, "-m", "questloop.cli.app", "evaluate", "--store", store.url]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": "src"})
    return store


def test_the_best_segments_of_the_epoch_before_are_read(judged):
    found = demonstrations(judged, epoch=1, top_k=2)
    scores = {line.segment_id: line.weighted for line in read_scores(judged, 0)}
    best = sorted(scores, key=lambda name: -scores[name])[:2]
    reader = SegmentReader(judged)
    assert [item.action.tolist() for item in found] == [
        [Action[line["action"]] for line in reader.load(name).states[1:]] for name in best
    ]
    assert all(len(item.obs) == len(item.action) + 1 == len(item.reward) + 1 for item in found)


def test_nothing_is_imitated_before_anything_was_judged(judged):
    assert demonstrations(judged, epoch=0, top_k=2) == ()
    assert demonstrations(judged, epoch=1, top_k=0) == ()


def test_sil_without_segments_and_pictures_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SIL_COEF", "0.1")
    with pytest.raises(UsageError, match="AWR_TOP_K"):
        load()
    monkeypatch.setenv("AWR_TOP_K", "4")
    monkeypatch.setenv("OBSERVATION", "visual")
    with pytest.raises(UsageError, match="OBSERVATION=vector"):
        Trainer(load(), open_store(str(tmp_path)))
