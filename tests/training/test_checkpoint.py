"""Checkpoint files: what goes in comes out, and what is not whole is refused."""

import json

import numpy as np
import pytest

from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.training.checkpoint import Checkpoint, flatten, read_checkpoint, unflatten, write_checkpoint

TREE = {
    "runners": [
        {"age": np.arange(3), "streams": [{"state": 2**127 + 1}], "obs": np.zeros((2, 0), np.float32)},
        {"age": np.arange(2), "meta": np.array("text")},
    ],
    "none": None,
}


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path))
    policy, optimizer = {"w": np.ones((2, 2), np.float32)}, {"w.step": np.array(7.0, np.float32)}
    checkpoint = Checkpoint("vector-3", policy, optimizer, {}, TREE, {"lr": 5e-5})
    write_checkpoint(store, 4, checkpoint)
    return store


def test_nested_state_comes_back(store):
    found = read_checkpoint(store, 4, "vector-3")
    first, second = found.slots["runners"]
    np.testing.assert_array_equal(first["age"], [0, 1, 2])
    assert first["obs"].shape == (2, 0)
    assert first["streams"] == [{"state": 2**127 + 1}]
    assert second["meta"] == "text"
    assert found.slots["none"] is None
    assert found.counts == {"lr": 5e-5}
    assert found.optimizer["w.step"].shape == ()


def test_flatten_is_undone():
    arrays, tree = flatten({"a": [np.ones(2), {"b": 1}]})
    assert list(arrays) == ["/a/0"]
    assert unflatten(arrays, tree)["a"][1] == {"b": 1}


def test_another_observation_version_is_refused_with_both_named(store):
    with pytest.raises(BadDataError, match=r"vector-3.*vector-9"):
        read_checkpoint(store, 4, "vector-9")


def test_a_missing_checkpoint_is_named(store):
    with pytest.raises(BadDataError, match=r"checkpoints/epoch_5 is missing"):
        read_checkpoint(store, 5, "vector-3")


@pytest.mark.parametrize("name", ["policy.safetensors", "slots.safetensors", "state.json"])
def test_a_cut_off_file_is_refused(store, name):
    key = keys.checkpoint(4, name)
    store.put(key, store.get(key)[:-5])
    with pytest.raises(BadDataError, match=r"cut off|cannot be read"):
        read_checkpoint(store, 4, "vector-3")


@pytest.mark.parametrize("group", ["policy", "optimizer", "curiosity"])
def test_a_weight_that_is_not_finite_is_not_written(store, group):
    checkpoint = Checkpoint("v", {}, {}, {}, {})
    setattr(checkpoint, group, {"layer": np.array([1, np.nan], np.float32)})
    with pytest.raises(BadDataError, match=rf"{group}.layer is not finite"):
        write_checkpoint(store, 1, checkpoint)
    assert not list(store.list(keys.checkpoint_prefix(1)))


@pytest.mark.parametrize("name", ["policy", "optimizer", "curiosity", "slots"])
def test_a_file_that_was_changed_is_refused_and_named(store, name):
    arrays = {"layer": np.zeros(3, np.float32)}
    write_checkpoint(store, 1, Checkpoint("v", arrays, arrays, arrays, {"a": np.zeros(3)}))
    key = keys.checkpoint(1, f"{name}.safetensors")
    data = bytearray(store.get(key))
    data[-1] ^= 1
    store.put(key, bytes(data))
    with pytest.raises(BadDataError, match=rf"{name}.safetensors: cut off or changed.*--rewind 1"):
        read_checkpoint(store, 1, "v")


def test_a_checkpoint_of_a_newer_release_is_refused(store):
    write_checkpoint(store, 1, Checkpoint("v", {}, {}, {}, {}))
    key = keys.checkpoint(1, "state.json")
    store.put(key, json.dumps(json.loads(store.get(key)) | {"schema_version": 99}).encode())
    with pytest.raises(BadDataError, match="schema version 99 is newer"):
        read_checkpoint(store, 1, "v")
