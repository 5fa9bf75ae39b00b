"""The archive's counts, chances, bounds and files, and its states in the real game."""

import json
from collections import Counter
from importlib import resources

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.errors import BadDataError
from questloop.exploration.archive import Archive, Delta, Explorer
from questloop.game.batch import GameBatch
from questloop.game.emulator import PYBOY_VERSION, Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.state_file import SaveState
from questloop.rewards.total import Rewards
from questloop.settings import RewardSettings
from questloop.storage import keys
from questloop.storage.store import open_store


def state(name="", raw_return=0.0, data=b"state"):
    return SaveState(data, "rom", "2.8.1", "layout", name, raw_return)


def delta(found=(), seen=(), chosen=()):
    states = {name: (value, state(name, value).to_bytes()) for name, value in dict(found).items()}
    return Delta(Counter(dict(seen)), Counter(dict(chosen)), states)


def archive(seen, capacity=512):
    made = Archive(capacity)
    made.merge([delta(dict.fromkeys(seen, 0.0), seen)])
    return made


def test_chances_are_those_of_the_formula():
    chances = archive({"a": 0, "b": 3, "c": 8}).probabilities()
    total = 1 + 1 / 2 + 1 / 3
    assert chances == pytest.approx({"a": 1 / total, "b": 0.5 / total, "c": 1 / 3 / total})


def test_cells_are_sampled_by_their_chances_and_not_the_best_alone():
    cells, rng = archive({"a": 0, "b": 3, "c": 8}), np.random.default_rng(0)
    drawn = Counter(cells.choose(rng) for _ in range(3000))
    for name, chance in cells.probabilities().items():
        assert drawn[name] / 3000 == pytest.approx(chance, abs=0.04)


def test_an_empty_archive_chooses_nothing():
    assert Archive().choose(np.random.default_rng(0)) is None
    assert Explorer(1, Archive()).choose(np.random.default_rng(0)) is None


def test_being_chosen_is_counted_apart_from_being_seen():
    cells = archive({"a": 5})
    explorer = Explorer(1, cells)
    before = cells.probabilities()
    for _ in range(4):
        assert explorer.choose(np.random.default_rng(0)).cell == "a"
    cells.merge([explorer.take_delta()])
    assert (cells.cells["a"].seen, cells.cells["a"].chosen) == (5, 4)
    assert cells.probabilities() == before


def test_runners_counts_add_up_and_the_clearly_better_state_stays():
    cells = Archive()
    cells.merge(
        [
            delta({"a": 1.0}, {"a": 2}),
            delta({"a": 5.0}, {"a": 1}, {"a": 1}),
            delta({"a": 5.5}, {"a": 1}),
            delta({"a": 3.0}),
        ]
    )
    assert (cells.cells["a"].seen, cells.cells["a"].chosen) == (4, 1)
    assert cells.state("a").raw_return == 5.0


def test_a_full_archive_gives_up_what_is_seen_most_and_takes_it_no_second_time():
    cells = archive({"a": 9, "b": 1, "c": 4}, capacity=2)
    assert set(cells.probabilities()) == {"b", "c"}
    assert not cells.improves("a", 100.0)
    cells.merge([delta({"a": 100.0}, {"a": 1})])
    assert set(cells.probabilities()) == {"b", "c"}
    assert cells.cells["a"].seen == 10
    with pytest.raises(KeyError, match="left the archive"):
        cells.state("a")


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5), max_size=6), min_size=1, max_size=8
    ),
    st.integers(1, 4),
)
@settings(max_examples=40)
def test_the_archive_stays_bounded_and_loses_no_count(rounds, capacity):
    cells, total = Archive(capacity), Counter()
    for seen in rounds:
        cells.merge([delta(dict.fromkeys(seen, 0.0), seen)])
        total += Counter(seen)
    assert len(cells.probabilities()) <= capacity
    assert {name: cell.seen for name, cell in cells.cells.items() if cell.seen} == dict(total)
    assert not cells.cells or sum(cells.probabilities().values()) == pytest.approx(1)


def test_an_explorer_asks_for_new_cells_and_for_better_play_alone(columns):
    explorer = Explorer(1, archive({"g0-r02-k0-m0": 1}))
    explorer.reset(np.array([0]), columns(room=1))
    assert explorer.visit(columns(room=2), np.float32([0.5])) == []
    assert explorer.visit(columns(room=3), np.float32([0.5])) == [(0, "g0-r03-k0-m0")]
    explorer.keep("g0-r03-k0-m0", 0.5, state())
    assert explorer.visit(columns(room=2), np.float32([3.0])) == [(0, "g0-r02-k0-m0")]
    assert explorer.visit(columns(room=3), np.float32([0.6])) == []
    added = explorer.take_delta()
    assert added.seen == {"g0-r02-k0-m0": 2, "g0-r03-k0-m0": 2}
    kept = SaveState.from_bytes(added.found["g0-r03-k0-m0"][1])
    assert (kept.cell, kept.raw_return) == ("g0-r03-k0-m0", 0.5)
    assert not explorer.take_delta().seen


# The store


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def test_an_archive_comes_back_from_the_store(store):
    cells = archive({"a": 9, "b": 1, "c": 4}, capacity=2)
    written = cells.write(store, keys.archive(3))
    assert [each.key for each in written][-1] == keys.archive(3)
    again = Archive.read(store, keys.archive(3))
    assert (again.capacity, again.cells) == (2, cells.cells)
    assert again.probabilities() == cells.probabilities()


def test_states_are_written_once(store):
    cells = archive({"a": 1})
    assert len(cells.write(store, keys.archive(0))) == 2
    assert [each.key for each in cells.write(store, keys.archive(1))] == [keys.archive(1)]


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_state_that_is_gone_or_changed_is_named(store, harm):
    archive({"a": 1}).write(store, keys.archive(0))
    (key,) = [entry.key for entry in store.list("zelda-models/archive")]
    if harm == "missing":
        store.delete([key])
    else:
        store.put(key, store.get(key)[:-1])
    with pytest.raises(BadDataError, match=rf"{key} is {harm}.*remove the archive's index"):
        Archive.read(store, keys.archive(0))


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 9},
        {"capacity": None},
        {"cells": {"a": {"state": "../../secret", "raw_return": 0, "seen": 0, "chosen": 0}}},
        {"cells": {"a": {"state": None, "raw_return": float("nan"), "seen": 0, "chosen": 0}}},
        {"cells": {"a": {"state": None, "raw_return": 0, "seen": -1, "chosen": 0}}},
        {"cells": {"a": {}}},
        {"cells": []},
        None,
    ],
)
def test_an_index_that_is_none_is_refused(store, change):
    archive({"a": 1}).write(store, keys.archive(0))
    document = json.loads(store.get(keys.archive(0)))
    text = json.dumps(document | change) if change else json.dumps(document)[:-9]
    store.put(keys.archive(0), text.encode())
    with pytest.raises(BadDataError, match=r"archive\.json is no index"):
        Archive.read(store, keys.archive(0))


# The real game


@pytest.fixture(scope="module")
def explored(game):
    """An archive of the game's walkthrough, and where and with what each cell was entered."""
    rom, profile = game
    emulator, taps = Emulator(rom, profile.layout), np.zeros((1, profile.layout.size), np.uint8)
    emulator.read(taps[0])
    rewards, explorer = Rewards(1, RewardSettings()), Explorer(1, Archive())
    rewards.reset(np.array([0]), profile.columns(taps))
    explorer.reset(np.array([0]), profile.columns(taps))
    script = resources.files("questloop.game") / "roms" / profile.walkthrough
    raw_return, entered = np.zeros(1, np.float32), {}
    for item in steps(parse_inputs(script.read_text("utf-8")), 4):
        emulator.step(item.action, item.frames)
        emulator.read(taps[0])
        here = profile.columns(taps)
        raw_return += rewards.step(here)
        for _, name in explorer.visit(here, raw_return):
            explorer.keep(name, float(raw_return[0]), emulator.save())
            entered[name] = _owned(here)
    emulator.close()
    found = Archive()
    found.merge([explorer.take_delta()])
    return found, entered


def _owned(columns):
    return int(columns.place[0]), int(columns.milestones[0]), int(columns.rupees[0]), int(columns.health[0])


def test_a_walk_through_the_game_fills_the_archive(explored):
    found, _ = explored
    assert len(found.probabilities()) >= 5
    assert all(found.state(name).cell == name for name in found.probabilities())


def test_a_restored_cell_is_where_it_says_and_pays_nothing_for_what_it_owns(game, explored):
    rom, profile = game
    found, entered = explored
    found.require(rom.sha256, PYBOY_VERSION, profile.layout.hash)
    batch, rewards, explorer = (
        GameBatch(rom, profile.layout, 1),
        Rewards(1, RewardSettings()),
        Explorer(1, found),
    )
    for name in found.probabilities():
        batch.reset(0, found.state(name))
        here = profile.columns(batch.taps)
        assert _owned(here) == entered[name]
        rewards.reset(np.array([0]), here)
        explorer.reset(np.array([0]), here)
        assert rewards.step(here)[0] == 0
        assert explorer.visit(here, np.float32([1e6])) == []
    batch.close()


def test_an_archive_of_another_rom_is_refused_with_what_changed(explored):
    with pytest.raises(BadDataError, match=r"archive cell .* ROM .* became f{12}"):
        explored[0].require("f" * 64, PYBOY_VERSION, "layout")
