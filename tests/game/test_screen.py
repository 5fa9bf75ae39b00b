"""Screens in 15-bit colours."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.screen import rgb_of_screen, screen_of_rgba
from questloop.game.start_states import beginnings


@given(arrays(np.uint8, (3, 5, 4)))
def test_each_colour_keeps_its_five_highest_bits(pixels):
    screen = screen_of_rgba(pixels)
    np.testing.assert_array_equal(rgb_of_screen(screen), pixels[..., :3] & 0xF8)


@given(arrays(np.uint16, (4, 4), elements=st.integers(0, (1 << 15) - 1)))
def test_a_screen_comes_back(screen):
    rgb = rgb_of_screen(screen)
    back = np.zeros_like(screen)
    pixels = np.concatenate([rgb, np.full((4, 4, 1), 255, np.uint8)], axis=2)
    assert screen_of_rgba(pixels, back) is back
    np.testing.assert_array_equal(back, screen)


def test_the_games_colours_lose_nothing():
    rom = Rom.load(None)
    profile = profile_for(rom)
    emulator = Emulator(rom, profile.layout)
    emulator.load(next(beginnings(rom, profile)).state)
    emulator.step(Action.NOP, 120, render=True)
    screen = emulator.screen()
    np.testing.assert_array_equal(rgb_of_screen(screen), emulator.frame())
    assert len(np.unique(screen)) > 4
    emulator.close()
