"""`questloop evaluate-policy` on a checkpoint whose policy is known."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.env.observers import VECTOR
from questloop.errors import BadDataError, UsageError
from questloop.game.actions import Action
from questloop.storage.store import open_store
from questloop.training.checkpoint import Checkpoint, write_checkpoint


@pytest.fixture
def store(tmp_path):
    """A store with one checkpoint, whose policy walks right whatever it sees."""
    where = tmp_path / "store"
    bias = np.full(len(Action), -1000, np.float32)
    bias[Action.RIGHT] = 0
    policy = {
        "policy.0.weight": np.zeros((4, 128), np.float32),
        "policy.0.bias": np.zeros(4, np.float32),
        "policy.2.weight": np.zeros((len(Action), 4), np.float32),
        "policy.2.bias": bias,
    }
    empty = {"slots": {}, "counts": {}, "optimizer": {}, "curiosity": {}}
    write_checkpoint(
        open_store(str(where)), 0, Checkpoint(observation_version=VECTOR, policy=policy, **empty)
    )
    return str(where)


def test_episodes_are_played_and_counted(store, monkeypatch):
    monkeypatch.setenv("EPISODE_LENGTH", "40")
    found = CliRunner().invoke(app, ["evaluate-policy", store, "--episodes", "3", "--json"])
    assert found.exception is None
    document = json.loads(found.output)
    assert (document["episodes"], document["steps_per_episode"]) == (3, 40)
    assert document["start"] == "power-on"
    again = CliRunner().invoke(app, ["evaluate-policy", "--store", store, "--episodes", "3", "--json"])
    assert json.loads(again.output) == document
    told = CliRunner().invoke(app, ["evaluate-policy", store, "--episodes", "1", "--start", "start"])
    assert "steps per episode        40.00" in told.output
    assert "rooms per episode        0.00" not in told.output
    assert "planner off" in told.stderr
    assert "planner off" not in again.stderr


def test_without_a_checkpoint_it_says_what_to_do(tmp_path):
    (tmp_path / "empty").mkdir()
    answer = CliRunner().invoke(app, ["evaluate-policy", str(tmp_path / "empty")])
    assert isinstance(answer.exception, BadDataError)
    assert "questloop demo" in str(answer.exception)


def test_an_unknown_start_is_named(store):
    answer = CliRunner().invoke(app, ["evaluate-policy", store, "--start", "nowhere"])
    assert isinstance(answer.exception, UsageError)
    assert "nowhere" in str(answer.exception)
