"""Start states: made, stored, weighed, and refused when they no longer fit."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest

from questloop.errors import BadDataError, UsageError
from questloop.game import start_states
from questloop.game.emulator import Emulator
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import (
    BEGINNING,
    StartState,
    StartStates,
    load_start_states,
    read_start_states,
    write_start_state,
)


@pytest.fixture(scope="module")
def rom():
    return Rom.load()


@pytest.fixture(scope="module")
def beginning(rom):
    return load_start_states(rom, PROFILE).named(BEGINNING)


def test_the_bundled_game_begins_with_control(rom, beginning):
    emulator, row = Emulator(rom, PROFILE.layout), np.zeros(PROFILE.layout.size, np.uint8)
    emulator.load(beginning.state)
    emulator.read(row)
    assert PROFILE.columns(row[np.newaxis]).has_control[0]
    assert beginning.weight == 1


def test_a_game_without_walkthrough_begins_at_power_on(toy_rom):
    profile = dataclasses.replace(PROFILE, walkthrough="")
    states = load_start_states(toy_rom, profile)
    assert [item.name for item in states.states] == [BEGINNING]
    assert states.states[0].state.data == Emulator(toy_rom, profile.layout).save().data


def test_states_go_to_a_folder_and_back(tmp_path, rom, beginning):
    write_start_state(str(tmp_path), dataclasses.replace(beginning, name="b"))
    write_start_state(str(tmp_path), dataclasses.replace(beginning, name="a", weight=2.5))
    loaded = load_start_states(rom, PROFILE, str(tmp_path))
    assert [(item.name, item.weight) for item in loaded.states] == [("a", 2.5), ("b", 1.0)]
    assert loaded.named("a").state == beginning.state
    with pytest.raises(UsageError, match="there are a, b"):
        loaded.named("c")


def test_weights_rule_the_choice(beginning):
    states = StartStates(
        tuple(
            dataclasses.replace(beginning, name=name, weight=w) for name, w in (("a", 3), ("b", 1), ("c", 0))
        )
    )
    rng = np.random.default_rng(0)
    counts = Counter(states.choose(rng).name for _ in range(4000))
    assert counts["c"] == 0
    assert counts["a"] / counts["b"] == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rom_sha256": "f" * 64}, r"start state old .* ROM ffffffffffff became"),
        ({"pyboy_version": "1.6.0"}, r"PyBoy 1\.6\.0 became"),
        ({"layout_hash": "0" * 64}, "tap layout"),
    ],
)
def test_an_outdated_state_says_what_changed_and_how_to_make_it_again(
    tmp_path, rom, beginning, change, named
):
    write_start_state(str(tmp_path), StartState("old", dataclasses.replace(beginning.state, **change)))
    with pytest.raises(BadDataError, match=named) as caught:
        load_start_states(rom, PROFILE, str(tmp_path))
    assert "questloop states capture" in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not a JSON object"),
        ('{"gone": 1}', "names gone"),
        ('{"a": -1}', "weight of a"),
        ('{"a": NaN}', "weight of a"),
        ('{"a": 0}', "no start state has a weight above 0"),
    ],
)
def test_bad_weights_are_one_clear_line(tmp_path, rom, beginning, weights, named):
    write_start_state(str(tmp_path), dataclasses.replace(beginning, name="a"))
    (tmp_path / "weights.json").write_text(weights)
    with pytest.raises(BadDataError, match=named):
        load_start_states(rom, PROFILE, str(tmp_path))


def test_empty_missing_and_damaged_folders(tmp_path, beginning):
    with pytest.raises(BadDataError, match=r"holds no \.state"):
        read_start_states(str(tmp_path))
    with pytest.raises(BadDataError, match="is no folder"):
        read_start_states(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    (tmp_path / "cut.state").write_bytes(beginning.state.to_bytes()[:500])
    with pytest.raises(BadDataError, match=r"cut\.state is cut off"):
        read_start_states(str(tmp_path))


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 65, ".hidden"])
def test_names_are_plain(tmp_path, beginning, name):
    with pytest.raises(UsageError, match="a name is"):
        write_start_state(str(tmp_path), dataclasses.replace(beginning, name=name))


def test_replay_takes_a_state_for_each_milestone(rom, monkeypatch):
    # The toy milestone: another room than the first was entered, by walking north.
    from questloop.game.input_script import parse_inputs
    from questloop.game.profile import ByteTest, Milestone

    moved = Milestone("north", "Went up", (ByteTest("room", 0, 0xFF, 0x11, 0x11),))
    profile = dataclasses.replace(PROFILE, milestones=(moved,), guide=None)
    script = parse_inputs("NOP 500\nRIGHT 12\nUP 200\nNOP 60\n")
    states = list(start_states.replay(rom, profile, script))
    assert [(item.name, item.weight) for item in states] == [(BEGINNING, 1.0), ("north", 0.0)]
    with pytest.raises(BadDataError, match="never gives the player control"):
        list(start_states.replay(rom, profile, parse_inputs("NOP 8")))


def test_weights_file_is_plain_json(tmp_path, beginning):
    write_start_state(str(tmp_path), dataclasses.replace(beginning, name="a", weight=0.5))
    assert json.loads((tmp_path / "weights.json").read_text()) == {"a": 0.5}
