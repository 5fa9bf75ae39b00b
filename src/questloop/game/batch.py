"""N emulators of one ROM in one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from questloop.game.emulator import Emulator
from questloop.game.rom import Rom
from questloop.game.screen import Screen
from questloop.game.state_file import SaveState
from questloop.game.taps import TapLayout


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
            self.emulators[slot].step(buttons[slot], self.frame_skip, drawn[slot])
            self._read(slot)

    def _read(self, slot: int) -> None:
        self.emulators[slot].read_into(self._rows[slot])
