"""Screens in the Game Boy Color's own 15-bit colours, two bytes per pixel.

Nothing is lost of what PyBoy draws with `cgb=True`, whose colours are multiples of 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SCREEN_SHAPE = (144, 160)
Screen = NDArray[np.uint16]
"""u16[H, W], `red << 10 | green << 5 | blue`, each 0-31"""


def screen_of_rgba(pixels: NDArray[np.uint8], out: Screen | None = None) -> Screen:
    """The screen of contiguous u8[H, W, 4], in `out` where given; the lowest three bits of each colour are
    dropped."""
    words = pixels.view("<u4")[..., 0]  # red in the lowest byte
    screen = (words & 0xF8) << 7
    screen |= (words >> 6) & 0x3E0
    screen |= (words >> 19) & 0x1F
    out = np.empty(screen.shape, np.uint16) if out is None else out
    out[:] = screen
    return out


def rgb_of_screen(screen: NDArray[Any]) -> NDArray[np.uint8]:
    """u8[H, W, 3] of a screen, each colour a multiple of 8."""
    parts = np.stack([screen >> 10, screen >> 5 & 31, screen & 31], axis=-1)
    return parts.astype(np.uint8) * np.uint8(8)
