"""Draws the key pictures of a segment on one labelled sheet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, UnidentifiedImageError

from questloop.episodes.reader import SegmentView
from questloop.judges.compress import Event, Weight, shows_the_game

VERSION = 2
MAX_PICTURES = 6
COLUMNS = 3
WIDTH, HEIGHT, LABEL = 160, 144, 14
SEARCH_STEPS = 3
"""a picture of an event is stored within this many steps after it"""

PLACES = {Weight.ROOM: 3, Weight.GAIN: 4, Weight.HEALTH: 1, Weight.DIALOG: 2, Weight.PUZZLE: 2}
"""how telling a picture of such an event is"""


@dataclass(frozen=True)
class Picture:
    """A stored frame and what it shows."""

    step: int
    label: str
    png: bytes


def choose(segment: SegmentView, events: Sequence[Event], limit: int = MAX_PICTURES) -> list[Picture]:
    """Pictures of gains, room changes, dialogs, damage and the end, in order of play; none of menus."""
    stored = [int(line["step"]) for line in segment.states if line.get("png") and shows_the_game(line)]
    if not stored:
        return []
    labels = {stored[0]: "start", stored[-1]: "end"}
    telling = sorted(
        (event for event in events if event.weight in PLACES),
        key=lambda event: (-PLACES[event.weight], event.step),
    )
    for event in telling:
        if len(labels) >= limit:
            break
        step = next((step for step in stored if event.step <= step <= event.step + SEARCH_STEPS), None)
        if step is not None:
            labels.setdefault(step, event.text)
    pictures = [(step, label, segment.png(step)) for step, label in sorted(labels.items())]
    return [Picture(step, label, png) for step, label, png in pictures if png]


def sheet(pictures: Sequence[Picture]) -> bytes | None:
    """A PNG of the pictures in rows of three, each above its step and label; None without pictures."""
    tiles = [(picture, frame) for picture in pictures if (frame := _decode(picture.png)) is not None]
    if not tiles:
        return None
    columns = min(COLUMNS, len(tiles))
    rows = -(-len(tiles) // columns)
    canvas = Image.new("RGB", (columns * WIDTH, rows * (HEIGHT + LABEL)), "white")
    draw = ImageDraw.Draw(canvas)
    for place, (picture, frame) in enumerate(tiles):
        left, top = place % columns * WIDTH, place // columns * (HEIGHT + LABEL)
        canvas.paste(frame, (left, top))
        draw.text((left + 2, top + HEIGHT + 1), f"{picture.step} {picture.label}"[:26], fill="black")
    out = io.BytesIO()
    canvas.save(out, "PNG", compress_level=1)
    return out.getvalue()


def _decode(png: bytes) -> Image.Image | None:
    """The frame, or None where it is not a whole picture: one bad file must not end a pass."""
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            return image.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)
    except (UnidentifiedImageError, OSError, SyntaxError):
        return None
