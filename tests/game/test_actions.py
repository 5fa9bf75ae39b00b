"""Actions beyond the eight: what is held and pressed, and what a policy may take."""

from pathlib import Path

import numpy as np
import pytest

from questloop.game.actions import (
    ACTION_COUNT,
    ACTIONS,
    ALL_COUNT,
    HELD_BITS,
    PARTS,
    Action,
    Chord,
    policy_actions,
)
from questloop.game.emulator import Emulator
from questloop.game.input_script import format_inputs, parse_inputs, steps
from questloop.game.profiles.named import named_profile
from questloop.game.rom import Rom

NINE_COINS = Path(__file__).parents[2] / "games/ninecoins"
KEYS = 0xC200
SELECT, RIGHT, A = 0x04, 0x10, 0x01


@pytest.fixture
def playing():
    profile = named_profile(str(NINE_COINS / "ninecoins.py"))
    emulator = Emulator(Rom.load(NINE_COINS / "ninecoins.gbc"), profile.layout)
    for action, frames in ((Action.NOP, 200), (Action.START, 8), (Action.NOP, 90)):
        emulator.step(action, frames)
    yield emulator
    emulator.close()


def test_the_values_of_the_eight_stay():
    assert [int(action) for action in Action] == list(range(8))
    assert ACTION_COUNT == 8
    assert [int(action) for action in ACTIONS] == list(range(ALL_COUNT))


@pytest.mark.parametrize(
    ("action", "parts"),
    [
        (Action.UP, (0, -1)),
        (Action.A, (-1, 4)),
        (Action.NOP, (-1, -1)),
        (Chord.SELECT, (-1, 8)),
        (Chord.A_UP, (0, 4)),
        (Chord.B_RIGHT, (3, 5)),
        (Chord.A_LEFT, (2, 4)),
    ],
)
def test_what_an_action_consists_of(action, parts):
    assert PARTS[action] == parts
    wanted = {part for part in parts if 0 <= part < 8} | ({int(action)} if action < 8 else set())
    assert set(np.flatnonzero(HELD_BITS[action]).tolist()) == wanted


def test_a_chord_holds_its_direction_and_presses_its_button(playing):
    before = playing.peek(0xD00D, 1, 1)[0]
    playing.step(Chord.A_RIGHT, 8)
    ran = playing.peek(0xD00D, 1, 1)[0] - before
    playing.step(Action.RIGHT, 8)
    walked = playing.peek(0xD00D, 1, 1)[0] - before - ran
    assert walked == 8
    assert 8 + 2 * 3 <= ran <= 8 + 2 * 5, "A is let go for the second half"


def test_select_reaches_the_game(playing):
    playing.step(Chord.SELECT, 1)
    playing.tick(1)
    assert playing.peek(KEYS)[0] == SELECT
    playing.step(Chord.SELECT, 8)
    assert playing.peek(KEYS)[0] == 0


def test_a_direction_stays_held_from_a_chord_to_the_plain_one(playing):
    playing.step(Chord.A_RIGHT, 4)
    playing.tick(1)
    assert playing.peek(KEYS)[0] == RIGHT
    playing.step(Action.NOP, 2)
    assert playing.peek(KEYS)[0] == 0


def test_a_loaded_state_lets_chords_go(playing):
    state = playing.save()
    playing.step(Chord.A_RIGHT, 1)
    playing.load(state)
    playing.step(Action.NOP, 3)
    assert playing.peek(KEYS)[0] == 0


def test_scripts_name_them():
    inputs = parse_inputs("A_UP 8\nSELECT 4\nUP 8\n")
    assert [item.action for item in inputs] == [Chord.A_UP, Chord.SELECT, Action.UP]
    assert [item.frames for item in steps(inputs, 4)] == [8, 4, 4, 4]
    assert format_inputs(inputs) == "A_UP 8\nSELECT 4\nUP 8\n"


def test_a_profile_opens_what_it_needs():
    assert policy_actions().tolist() == [True] * 8
    assert len(policy_actions(without=(Action.START,))) == 8
    mask = policy_actions(Chord.SELECT, without=(Action.START,))
    assert np.flatnonzero(mask).tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
