"""The visual observation: four grey frames and three memory channels, u8 [7, 72, 80] per slot.

Channels 0-3 are the screens of the last four steps at half resolution, the newest last; channel 4 marks the
metatiles of the room that the episode has stepped on, 5 how solid each is, 6 where the hero stands. The
memory channels show the whole room, stretched over the picture, so that a large room fits as well as a small
one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.game.batch import GameBatch
from questloop.game.columns import ROOM_COLS, ROOM_ROWS, Columns
from questloop.game.history import History

STACK, MEMORY = 4, 3
HEIGHT, WIDTH = 72, 80
SHAPE = (STACK + MEMORY, HEIGHT, WIDTH)

_LUMA = np.array([77, 150, 29], np.uint16)  # ITU-R BT.601, in 256ths
_SOLID = (np.bitwise_count(np.arange(256, dtype=np.uint8) & 15) * 63).astype(np.uint8)
_SMALL, _LARGE = (8, 10), (ROOM_ROWS, 15)


class VisualEncoder:
    """Stacks the frames of N slots; an episode starts on black ones."""

    def __init__(self, n: int) -> None:
        self._frames = np.zeros((n, STACK, HEIGHT, WIDTH), np.uint8)

    def begin(
        self, slots: NDArray[np.intp], columns: Columns, history: History, out: NDArray[np.uint8]
    ) -> None:
        """Forget the frames of `slots` and write their first observations into `out[slots]`."""
        self._frames[slots] = 0
        for slot in slots.tolist():
            self._write(slot, columns, history, out[slot])

    def encode(self, batch: GameBatch, columns: Columns, history: History, out: NDArray[np.uint8]) -> None:
        """Add the screens of a rendered step and write `out` u8[N, 7, 72, 80]."""
        self._frames[:, :-1] = self._frames[:, 1:]
        for slot in range(len(out)):
            self._frames[slot, -1] = grey(batch.frame(slot))
            self._write(slot, columns, history, out[slot])

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The stacked frames."""
        return {"frames": self._frames.copy()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `state_dict` gave."""
        self._frames[:] = state["frames"]

    def _write(self, slot: int, columns: Columns, history: History, out: NDArray[np.uint8]) -> None:
        out[:STACK] = self._frames[slot]
        rows, cols = _STRETCHED[_LARGE if columns.large_room[slot] else _SMALL]
        grids = np.zeros((MEMORY, ROOM_ROWS, ROOM_COLS), np.uint8)
        grids[0] = history.tiles_stepped_on(slot, int(columns.place[slot]))[:ROOM_ROWS] * np.uint8(255)
        grids[1] = _SOLID[columns.collisions[slot]]
        tile = int(columns.tile[slot])
        if tile >> 4 < ROOM_ROWS:
            grids[2, tile >> 4, tile & 15] = 255
        out[STACK:] = grids[:, rows[:, None], cols]


def grey(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luminance u8[72, 80] of every second pixel of `frame` u8[144, 160, 3]."""
    luminance: NDArray[np.uint8] = ((frame[::2, ::2] @ _LUMA) >> 8).astype(np.uint8)
    return luminance


_STRETCHED = {  # row and column of the room's metatile under each pixel
    room: (np.arange(HEIGHT) * room[0] // HEIGHT, np.arange(WIDTH) * room[1] // WIDTH)
    for room in (_SMALL, _LARGE)
}
