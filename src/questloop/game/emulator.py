"""One Game Boy Color emulator without a window (PyBoy)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from questloop.errors import BadDataError
from questloop.game.actions import PARTS, Action
from questloop.game.rom import Rom
from questloop.game.screen import Screen, screen_of_rgba
from questloop.game.state_file import REMAKE, SaveState
from questloop.game.taps import TapLayout

with warnings.catch_warnings():
    # PySDL2 announces at import which binaries it uses; headless play has no use for either.
    warnings.filterwarnings("ignore", "Using SDL2 binaries", UserWarning)
    from pyboy import PyBoy
    from pyboy.utils import WindowEvent

PYBOY_VERSION = metadata.version("pyboy")

_PRESS = (  # by what an action consists of: `actions.PARTS`
    WindowEvent.PRESS_ARROW_UP,
    WindowEvent.PRESS_ARROW_DOWN,
    WindowEvent.PRESS_ARROW_LEFT,
    WindowEvent.PRESS_ARROW_RIGHT,
    WindowEvent.PRESS_BUTTON_A,
    WindowEvent.PRESS_BUTTON_B,
    WindowEvent.PRESS_BUTTON_START,
    None,
    WindowEvent.PRESS_BUTTON_SELECT,
)
_RELEASE = (
    WindowEvent.RELEASE_ARROW_UP,
    WindowEvent.RELEASE_ARROW_DOWN,
    WindowEvent.RELEASE_ARROW_LEFT,
    WindowEvent.RELEASE_ARROW_RIGHT,
    WindowEvent.RELEASE_BUTTON_A,
    WindowEvent.RELEASE_BUTTON_B,
    WindowEvent.RELEASE_BUTTON_START,
    None,
    WindowEvent.RELEASE_BUTTON_SELECT,
)
_NONE = -1
_BOOT_FRAMES = 80
"""of a game for the original Game Boy: by then the machine has gone over to its mode, after which no state
from before loads."""


class Emulator:
    """A game in CGB mode, without window, sound output or save files.

    An action is one button held during a step, or a direction held and a button pressed (`actions.Chord`).
    The d-pad stays held from step to step while the direction stays the same, so that walking and pushing do
    not stutter. A, B, START and SELECT are let go for the second half of a step (rounded down), so that the
    same action twice is two presses. In steps of one frame there is no second half: two presses then need a
    step between them.
    """

    def __init__(self, rom: Rom, layout: TapLayout, power_on: SaveState | None = None) -> None:
        """`power_on`: another emulator's state of the same ROM right after its construction saves time."""
        self.rom = rom
        self.layout = layout
        # A ROM given by path would load .ram and .rtc files beside it. Sound stays emulated, since games wait
        # on its registers; only sampling is off.
        try:
            self._pyboy = PyBoy(
                io.BytesIO(rom.data), window="null", cgb=True, no_input=True, log_level="CRITICAL"
            )
        except Exception as error:  # of any kind: it parses what is in the file
            raise BadDataError(
                f"ROM {rom.path}: the emulator does not take it ({error!r}); set ROM_PATH to another file"
            ) from None
        self._pyboy.set_emulation_speed(0)
        self._memory = self._pyboy.memory
        self._direction = self._button = _NONE
        if not rom.color:
            self.tick(_BOOT_FRAMES)
        self.power_on = power_on or self.save()

    def reset(self) -> None:
        """The state at power-on."""
        self.load(self.power_on)

    def step(self, action: int, frames: int, render: bool = False) -> None:
        """Hold the buttons of `action` for `frames` frames; `render` draws the last of them."""
        self._hold(action, frames)
        self._pyboy.tick(frames, render, False)

    def show(self, action: int, frames: int, every: int) -> Iterator[NDArray[np.uint8]]:
        """As `step`, and yields the screen u8[144, 160, 3] after every `every` frames and after the last."""
        self._hold(action, frames)
        for first in range(0, frames, every):
            self._pyboy.tick(min(every, frames - first), True, False)
            yield self.frame()

    def _hold(self, action: int, frames: int) -> None:
        """Press the buttons of a step of `frames` frames, and have go what is to be pressed."""
        direction, button = PARTS[action]
        if direction != self._direction:
            self._change(self._direction, direction)
            self._direction = direction
        if button != self._button:
            self._change(self._button, button)
            self._button = button
        if button != _NONE and frames > 1:
            self._pyboy.send_input(_RELEASE[button], (frames + 1) // 2)
            self._button = _NONE

    def tick(self, frames: int) -> None:
        """Run `frames` frames with the buttons as they are: what a benchmark measures everything against."""
        self._pyboy.tick(frames, False, False)

    def read(self, out: NDArray[np.uint8]) -> None:
        """Fill `out` u8[K] with the layout's taps."""
        self.read_into(out.data)

    def read_into(self, out: memoryview) -> None:
        """As `read`, into the buffer of a row: what a batch keeps ready for each slot."""
        self.layout.read(self._memory, out)

    def look(self, layout: TapLayout) -> dict[str, bytes]:
        """The bytes of each tap of another layout, such as `profile.details`, for tools and planners."""
        row = bytearray(layout.size)
        layout.read(self._memory, memoryview(row))
        return {name: bytes(row[layout.offset(name)]) for name in layout.names}

    def peek(self, address: int, length: int = 1, bank: int | None = None) -> bytes:
        """Bytes outside the layout, for tools and tests."""
        span = slice(address, address + length)
        return bytes(self._memory[span] if bank is None else self._memory[bank, span])

    def poke(self, address: int, data: bytes, bank: int | None = None) -> None:
        """Write RAM, for tools and tests."""
        span = slice(address, address + len(data))
        self._memory[span if bank is None else (bank, span)] = list(data)

    def frame(self) -> NDArray[np.uint8]:
        """The screen u8[144, 160, 3] of the last rendered step, a copy."""
        screen: NDArray[np.uint8] = self._pyboy.screen.ndarray
        return screen[:, :, :3].copy()

    def screen(self, out: Screen | None = None) -> Screen:
        """The same u16[144, 160] in the machine's own colours, in `out` where given: a fifth of the time."""
        return screen_of_rgba(self._pyboy.screen.ndarray, out)

    def picture(self) -> NDArray[np.uint8]:
        """The screen u8[144, 160, 3] of the next frame, drawn for whoever asks; every button is released.

        The game stays where it is: it is saved and restored, so never on the hot path.
        """
        here = self.save()
        self.step(Action.NOP, 1, render=True)
        picture = self.frame()
        self.load(here)
        return picture

    def save(self) -> SaveState:
        """The whole state of the machine: 30-45 ms, never on the hot path."""
        buffer = io.BytesIO()
        self._pyboy.save_state(buffer)
        return SaveState(buffer.getvalue(), self.rom.sha256, PYBOY_VERSION, self.layout.hash)

    def adopt(self, data: bytes) -> SaveState:
        """A state that PyBoy itself saved, taken on trust: such a file does not say of which game it is."""
        return SaveState(data, self.rom.sha256, PYBOY_VERSION, self.layout.hash)

    def load(self, state: SaveState) -> None:
        """Restore a state, with every button released.

        Raises `BadDataError` where the state is of another ROM, PyBoy or layout, or is cut off; the game is
        then as it was, or at power-on where PyBoy refused the state halfway.
        """
        self._check(state)
        try:
            self._pyboy.load_state(io.BytesIO(state.data))
        except Exception as error:  # PyBoy raises a bare Exception where bytes are missing
            self._pyboy.load_state(io.BytesIO(self.power_on.data))
            raise BadDataError(f"save state does not load ({error}); {REMAKE}") from None
        for event in filter(None, _RELEASE):
            self._pyboy.send_input(event)
        self._direction = self._button = _NONE

    def close(self) -> None:
        """Free the emulator; nothing is written."""
        self._pyboy.stop(save=False)

    def _change(self, old: int, new: int) -> None:
        """Let one button go and press another; -1: none."""
        if old != _NONE:
            self._pyboy.send_input(_RELEASE[old])
        if new != _NONE:
            self._pyboy.send_input(_PRESS[new])

    def _check(self, state: SaveState) -> None:
        state.require(self.rom.sha256, PYBOY_VERSION, self.layout.hash)
        if len(state.data) != len(self.power_on.data):
            raise BadDataError(
                f"save state is cut off: {len(state.data)} bytes, not {len(self.power_on.data)}; {REMAKE}"
            )
