"""Plays the game by hand in a window."""

from __future__ import annotations

import io

from questloop.errors import UnavailableError
from questloop.game.emulator import PYBOY_VERSION, PyBoy
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.state_file import SaveState

KEYS = "arrow keys: d-pad, A: A, S: B, Return: Start, Backspace: Select, Space: faster, Escape: end"


def play_in_window(rom: Rom, profile: Profile, start: SaveState | None = None) -> SaveState:
    """Open a window, at `start` or power-on, and return the state in which it was closed.

    Raises `UnavailableError` where there is no display.
    """
    if start is not None:
        start.require(rom.sha256, PYBOY_VERSION, profile.layout.hash)
    pyboy = PyBoy(io.BytesIO(rom.data), window="SDL2", cgb=True, log_level="CRITICAL")
    try:
        _require_display()
        if start is not None:
            pyboy.load_state(io.BytesIO(start.data))
        while pyboy.tick():
            pass
        buffer = io.BytesIO()
        pyboy.save_state(buffer)
    finally:
        pyboy.stop(save=False)
    return SaveState(buffer.getvalue(), rom.sha256, PYBOY_VERSION, profile.layout.hash)


def _require_display() -> None:
    """Without a display SDL draws off screen, and nobody could close the window."""
    import sdl2

    driver = sdl2.SDL_GetCurrentVideoDriver()
    if driver == b"offscreen":
        raise UnavailableError("no display for a window; record with `questloop play --output FILE` instead")
