"""The bundled game in the emulator: states, details on demand, and the start of every milestone."""

import numpy as np
import pytest

from questloop.game.emulator import Emulator
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, beginnings
from questloop.game.state import decode


@pytest.fixture(scope="module")
def emulator():
    return Emulator(Rom.load(), PROFILE.layout)


@pytest.fixture(scope="module")
def starts():
    return {item.name: item for item in beginnings(Rom.load(), PROFILE, milestones=True)}


def state_of(emulator):
    row = np.zeros(PROFILE.layout.size, np.uint8)
    emulator.read(row)
    return decode(row, PROFILE)


def play(emulator, actions):
    """Memory and last screen after `actions`."""
    for action in actions.tolist():
        emulator.step(action, 4, render=True)
    work_ram = emulator.peek(0xC000, 0x1000), *(emulator.peek(0xD000, 0xFFF, bank) for bank in range(1, 8))
    return work_ram, emulator.frame().tobytes()


def test_the_walkthrough_reaches_every_milestone_in_order(starts):
    assert list(starts) == [BEGINNING, *(milestone.key for milestone in PROFILE.milestones)]


def test_each_state_holds_its_milestone_and_gives_control(emulator, starts):
    for name, item in starts.items():
        emulator.load(item.state)
        state = state_of(emulator)
        assert state.has_control, name
        assert name == BEGINNING or name in state.milestones


def test_a_state_from_the_middle_of_play_replays_exactly(emulator, starts):
    rng = np.random.default_rng(5)
    emulator.load(starts["vault_entered"].state)
    play(emulator, rng.integers(0, 8, 100))
    state, actions = emulator.save(), rng.integers(0, 8, 200)
    emulator.load(state)
    first = play(emulator, actions)
    play(emulator, rng.integers(0, 8, 50))
    emulator.load(state)
    assert play(emulator, actions) == first
    other = Emulator(Rom.load(), PROFILE.layout)
    other.load(state)
    assert play(other, actions) == first


def test_details_are_read_on_demand(emulator, starts):
    emulator.load(starts["sword_1"].state)
    details = emulator.look(PROFILE.details)
    assert details["hero"][0x0B] == state_of(emulator).y
    assert details["room_layout"] == emulator.peek(0xCF00, 176)
    assert any(details["room_layout"])
    assert set(details) == set(PROFILE.details.names)
