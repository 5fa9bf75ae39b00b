"""The unit bar: a potential along the walkthrough."""

import json
import subprocess
import sys

import numpy as np
import pytest

from questloop.errors import BadDataError, UsageError
from questloop.game.rom import Rom
from questloop.pipeline import walkthrough
from questloop.pipeline.walkthrough import WalkedStates, along_walkthrough, measure_store, walk_of
from questloop.settings import load
from questloop.storage.store import open_store


class Given:
    """A potential that is given step by step."""

    sha256, observation_version = "a" * 64, 2
    trust, trust_low, accuracy, accuracy_low = 0.9, 0.8, 0.7, 0.6

    def __init__(self, phi, **values):
        self._phi = np.float32(phi)
        vars(self).update(values)

    def __call__(self, obs):
        return self._phi


def walk(place, free=None):
    n = len(place)
    return WalkedStates(
        np.zeros((n, 4), np.float32), np.int32(place), np.ones(n, bool) if free is None else np.array(free)
    )


def test_rank_correlation_and_falls_at_entrances_by_hand():
    found = along_walkthrough(Given([0, 1, 0.75, 3, 2.5, 4]), walk([1, 1, 2, 2, 3, 3]), coef=0.5)
    assert found.spearman == pytest.approx(0.885714)
    assert found.largest_fall == pytest.approx(0.5)
    assert found.trust == pytest.approx(0.9)
    assert found.weight == pytest.approx(0.4)


def test_a_fall_within_a_room_or_while_the_screen_moves_is_none_at_an_entrance():
    found = along_walkthrough(
        Given([0, 3, 1, -9, 2]), walk([1, 1, 1, 2, 2], [True, True, True, False, True]), coef=1
    )
    assert found.largest_fall == pytest.approx(-1)


def test_what_is_not_known_is_none():
    nothing = Given([1, 1], trust=float("nan"), trust_low=float("nan"))
    found = along_walkthrough(nothing, walk([1, 1]), coef=1)
    assert (found.spearman, found.largest_fall, found.trust, found.weight) == (None, None, None, 0)


@pytest.mark.parametrize("skip", [4, 16])
def test_the_walk_ends_at_the_first_essence_and_enters_the_grotto(skip):
    found = walk_of(Rom.load(None), skip)
    rooms = list(dict.fromkeys(found.place.tolist()))
    assert rooms[0] == 0x0_21
    assert rooms[-1] == 0x4_00
    assert 0x4_21 in rooms
    assert len(found.observations) == len(found.place) == len(found.free)
    assert found.free.mean() > 0.5
    assert walk_of(Rom.load(None), skip) is found  # played once


def test_a_store_without_a_run_or_a_model_says_so(tmp_path, monkeypatch):
    with pytest.raises(BadDataError, match="holds no run"):
        measure_store(open_store(str(tmp_path)), load())


@pytest.mark.slow
def test_every_epoch_of_a_run_is_measured(finished_run, monkeypatch):
    done = subprocess.run(
        [sys.executable, "-m", "questloop.cli.app", "reward-model", "--along-walkthrough", "--json",
         "--store", str(finished_run)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    epochs = json.loads(done.stdout)["epochs"]
    assert [each["epoch"] for each in epochs] == [0, 1]
    for each in epochs:
        assert each.keys() == {"epoch", "spearman", "largest_fall", "trust", "weight"}
    monkeypatch.setattr(walkthrough, "walk_of", lambda *_: None)
    with pytest.raises(UsageError, match="no walkthrough"):
        measure_store(open_store(str(finished_run)), load())
