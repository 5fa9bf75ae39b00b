"""From power-on to control, on the stand-in's ROM and on Nine Coins; what holds a game up is said."""

from pathlib import Path

import pytest
from games.standin.build import KEPT

from questloop.errors import BadDataError
from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.opening import play_opening
from questloop.game.profiles.mossgrove import PROFILE as MOSSGROVE
from questloop.game.profiles.named import named_profile
from questloop.game.profiles.oracle_of_seasons import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import waits_at_title
from questloop.game.state import decode

NINE_COINS = Path(__file__).parents[2] / "games/ninecoins"


def state_after(rom, profile, opening):
    import numpy as np

    emulator = Emulator(rom, profile.layout)
    emulator.load(opening.state)
    row = np.zeros(profile.layout.size, np.uint8)
    emulator.read(row)
    emulator.close()
    return decode(row, profile)


def test_the_stand_in_is_pressed_through_title_file_name_and_opening():
    rom = Rom.load(KEPT)
    opening = play_opening(rom, PROFILE)
    state = state_after(rom, PROFILE, opening)
    assert state.has_control
    assert (state.group, state.room) == (0, 0xB6)
    assert state.menu == 0
    assert sum(item.frames for item in opening.inputs) == opening.frames


def test_the_inputs_lead_there_again():
    rom = Rom.load(KEPT)
    opening = play_opening(rom, PROFILE)
    emulator = Emulator(rom, PROFILE.layout)
    for item in opening.inputs:
        emulator.step(item.action, item.frames)
    assert emulator.save().data == opening.state.data
    emulator.close()


def test_games_of_other_profiles_are_begun_too():
    rom, profile = Rom.load(NINE_COINS / "ninecoins.gbc"), named_profile(str(NINE_COINS / "ninecoins.py"))
    assert state_after(rom, profile, play_opening(rom, profile)).has_control
    assert state_after(Rom.load(), MOSSGROVE, play_opening(Rom.load(), MOSSGROVE)).has_control


def test_an_opening_that_never_ends_says_where_it_stands():
    with pytest.raises(BadDataError, match=r"gave no control in \d+ frames \(room 0:00, menu \d, no text\)"):
        play_opening(Rom.load(KEPT), PROFILE, most_frames=200)


def test_a_game_that_waits_at_its_title_is_told():
    rom = Rom.load(KEPT)
    assert "questloop states capture --intro" in str(waits_at_title(rom, PROFILE, None))
    assert "\n" not in str(waits_at_title(rom, PROFILE, None))
    assert waits_at_title(rom, PROFILE, "states") is None
    assert waits_at_title(Rom.load(), MOSSGROVE, None) is None


def test_the_title_alone_does_nothing():
    emulator = Emulator(Rom.load(KEPT), PROFILE.layout)
    emulator.step(Action.NOP, 600)
    assert emulator.peek(0xC2EE) == b"\0"
    emulator.close()
