"""The window, on SDL's dummy driver."""

import threading

import pytest

from questloop.errors import UnavailableError
from questloop.game.emulator import Emulator
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.window import play_in_window


@pytest.fixture
def sdl2(monkeypatch):
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    return pytest.importorskip("sdl2")


def test_closing_the_window_returns_a_state_that_loads(monkeypatch, sdl2):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    rom = Rom.load()

    closed = threading.Event()

    def close() -> None:
        event = sdl2.SDL_Event()
        event.type = sdl2.SDL_QUIT
        while not closed.wait(0.3):
            sdl2.SDL_PushEvent(event)

    closer = threading.Thread(target=close)
    closer.start()
    try:
        state = play_in_window(rom, PROFILE)
    finally:
        closed.set()
        closer.join()
    emulator = Emulator(rom, PROFILE.layout)
    emulator.load(state)
    assert state.data != emulator.power_on.data


def test_without_a_display_it_says_so(monkeypatch, sdl2):
    monkeypatch.setenv("SDL_VIDEODRIVER", "offscreen")
    with pytest.raises(UnavailableError, match="no display"):
        play_in_window(Rom.load(), PROFILE)
