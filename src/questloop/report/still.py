"""A film's first picture: for a page, and drawn in a terminal, two pixels a character."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Any

from rich.style import Style
from rich.text import Text

COLUMNS, ROWS = 60, 48
"""Pixels drawn; a character holds one column and two rows."""

_ROOM = 128 / 164
"""share of a film's height that shows the room; below it stand the game's status line and the captions"""


def poster(film: bytes) -> bytes | None:
    """An MP4's first picture as PNG; None where it cannot be read, or without the extra `video`."""
    written = BytesIO()
    with suppress(ModuleNotFoundError, OSError, ValueError, StopIteration):  # of PyAV; an ornament
        _first(film).save(written, "png")
    return written.getvalue() or None


def still(film: bytes) -> Text:
    """The room of an MP4's first picture, `COLUMNS` by `ROWS / 2` characters; needs the extra `video`."""
    image = _first(film)
    room = image.crop((0, 0, image.width, round(image.height * _ROOM)))
    pixels = room.resize((COLUMNS, ROWS)).load()
    text = Text(no_wrap=True)
    for row in range(0, ROWS, 2):
        if row:
            text.append("\n")
        for column in range(COLUMNS):
            upper, lower = (f"#{bytes(pixels[column, row + at]).hex()}" for at in (0, 1))
            text.append("▀", Style(color=upper, bgcolor=lower))
    return text


def _first(film: bytes) -> Any:
    import av

    with av.open(BytesIO(film), "r") as container:
        return next(container.decode(video=0)).to_image()
