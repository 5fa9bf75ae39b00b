"""Steps `N` emulators of one ROM in one process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from questloop.game.emulator import Emulator
from questloop.game.rom import Rom
from questloop.game.screen import Screen
from questloop.game.state_file import SaveState
from questloop.game.taps import TapLayout

PART_FRAMES = 4
"""Frames between two buttons of a script, whatever the step's length is."""

Script = Callable[[], int]
"""says the button of a step's next part; `taps` is then what the part before it led to"""


def parts(frames: int) -> list[int]:
    """The frames of each part of a step of `frames` frames.

    >>> parts(10)
    [4, 4, 2]
    """
    return [min(PART_FRAMES, frames - first) for first in range(0, frames, PART_FRAMES)]


class GameBatch:
    """N emulators stepped together; `taps` u8[N, K] holds what was read after the last step or reset.

    `threads` > 1 steps slots in that many threads: emulation releases the interpreter lock, which pays for
    games that keep the CPU busy and costs for games that halt until VBlank.
    """

    def __init__(self, rom: Rom, layout: TapLayout, n: int, frame_skip: int = 4, threads: int = 1) -> None:
        self.n = n
        self.frame_skip = frame_skip
        first = Emulator(rom, layout)
        self.emulators = [first, *(Emulator(rom, layout, first.power_on) for _ in range(n - 1))]
        self.taps = np.zeros((n, layout.size), np.uint8)
        self.paused: set[int] = set()
        """Slots that `step` leaves as they are: their game stands still."""
        self.scripts: dict[int, Script] = {}
        """Slots whose steps are played in parts: the first with the step's action, the others by script."""
        self.pressed: dict[int, bytes] = {}
        """The last step of slots with a script: a button a part; none where the game stood still."""
        self._parts = parts(frame_skip)
        self._rows = [self.taps[slot].data for slot in range(n)]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._shares = [range(first, n, threads) for first in range(threads)]
        for slot in range(n):
            self._read(slot)

    def reset(self, slot: int, state: SaveState | None = None) -> None:
        """Power-on, or `state`. Held buttons are released."""
        emulator = self.emulators[slot]
        emulator.load(state or emulator.power_on)
        self._read(slot)

    def step(self, actions: NDArray[np.uint8], render: NDArray[np.bool_] | None = None) -> NDArray[np.uint8]:
        """`frame_skip` frames of every slot that is not paused, with its action u8[N]; returns `taps`.

        `render` bool[N] names the slots whose last frame is drawn for `frame`.
        """
        self.pressed = dict.fromkeys(self.paused, b"")
        buttons: list[int] = actions.tolist()
        drawn: list[bool] = [False] * self.n if render is None else render.tolist()
        if self._pool is None:
            self._step_slots(range(self.n), buttons, drawn)
        else:
            list(self._pool.map(lambda slots: self._step_slots(slots, buttons, drawn), self._shares))
        return self.taps

    def frame(self, slot: int) -> NDArray[np.uint8]:
        """Screen u8[144, 160, 3] of the slot's last rendered step."""
        return self.emulators[slot].frame()

    def screen(self, slot: int, out: Screen | None = None) -> Screen:
        """The same u16[144, 160] in 15-bit colours, in `out` where given."""
        return self.emulators[slot].screen(out)

    def save(self, slot: int) -> SaveState:
        """The slot's state."""
        return self.emulators[slot].save()

    def load(self, slot: int, state: SaveState) -> None:
        """Restore `state` into the slot and read its taps."""
        self.reset(slot, state)

    def close(self) -> None:
        """Stop threads and emulators."""
        if self._pool is not None:
            self._pool.shutdown()
        for emulator in self.emulators:
            emulator.close()

    def _step_slots(self, slots: range, buttons: list[int], drawn: list[bool]) -> None:
        for slot in slots:
            if slot in self.paused:
                continue
            if slot in self.scripts:
                self.pressed[slot] = self._play(slot, buttons[slot], self.scripts[slot], drawn[slot])
                continue
            self.emulators[slot].step(buttons[slot], self.frame_skip, drawn[slot])
            self._read(slot)

    def _play(self, slot: int, button: int, script: Script, drawn: bool) -> bytes:
        """One step in parts; the buttons that were pressed."""
        pressed = bytearray()
        for frames in self._parts:
            button = script() if pressed else button
            pressed.append(button)
            self.emulators[slot].step(button, frames, drawn and len(pressed) == len(self._parts))
            self._read(slot)
        return bytes(pressed)

    def _read(self, slot: int) -> None:
        self.emulators[slot].read_into(self._rows[slot])
