"""Draws the pictures of a film: a screen with words below it, or many screens side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

import numpy as np
from PIL import Image, ImageDraw

from questloop.episodes.replays import Replay
from questloop.report.theatre import Frame, Shot

WIDTH, HEIGHT = 160, 144
_SCALE = 3
_PANEL = 60  # pixels below the screen
_SAID = 50  # pixels more where the judges' reasons are shown
_SAID_LINES, _SAID_LETTERS = 3, 80
_DARK, _LIGHT, _SOFT = (20, 22, 27), (236, 238, 241), (150, 158, 170)
_GAIN, _LOSS, _MILESTONE = (122, 205, 150), (236, 130, 130), (240, 180, 90)
_MODES = {
    "policy": ("the policy plays", _SOFT),
    "dialog": ("a plan reads on", (240, 180, 90)),
    "puzzle": ("a plan solves a puzzle", (120, 180, 240)),
}
WORDS = {
    "room": "entered a room",
    "health": "was hurt",
    "rupee": "found money",
    "key": "found a key",
    "sword": "took a sword",
    "essence": "woke an essence",
    "death": "died",
    "dialog": "read a new text",
}
"""What happens when a part of the reward is paid; parts that are paid all the time have no words."""


@dataclass(frozen=True)
class Caption:
    """What happened at the end of a step, in words."""

    step: int
    words: str
    colour: tuple[int, int, int]


def captions(replay: Replay, shot: Shot, titles: dict[str, str]) -> list[Caption]:
    """What a whole step did: its milestones by title, else what it earned."""
    reached = [name for name, step in replay.milestones.items() if step == shot.step]
    if reached:
        return [Caption(shot.step, titles.get(name, name), _MILESTONE) for name in reached]
    return [
        Caption(shot.step, f"{WORDS[name]} {value:+.2f}", _GAIN if value > 0 else _LOSS)
        for name, value in shot.earned.items()
        if name in WORDS and abs(value) >= 0.01
    ]


@dataclass(frozen=True)
class Panel:
    """What stands below a picture of one episode."""

    title: str
    recent: Sequence[Caption] = ()
    judged: str = ""  # what the judges gave the segment that is shown
    said: str | None = None  # by a judge of it; None: there is no room for it
    quick: int = field(default=1)  # how many times the game's own speed

    def under(self, shot: Shot, frame: Frame) -> Frame:
        """The picture with the panel, u8[492, 480, 3], higher by 50 where a judge is to have a say."""
        width, top = WIDTH * _SCALE, HEIGHT * _SCALE
        image = Image.new("RGB", (width, top + _PANEL + (_SAID if self.said is not None else 0)), _DARK)
        image.paste(Image.fromarray(frame).resize((width, top), Image.Resampling.NEAREST), (0, 0))
        draw = ImageDraw.Draw(image)
        if self.quick > 1:
            draw.rectangle((width - 74, 0, width, 22), fill=_DARK)
            draw.text((width - 8, 3), f"{self.quick}x speed", fill=_SOFT, anchor="ra", font_size=14)
        draw.text((8, top + 3), f"step {shot.step:,}", fill=_LIGHT, font_size=16)
        draw.text((100, top + 3), f"return {shot.total:.2f}", fill=_LIGHT, font_size=16)
        who, colour = _MODES[shot.mode]
        draw.text((214, top + 3), who, fill=colour, font_size=16)
        draw.text((width - 8, top + 3), self.judged, fill=_SOFT, anchor="ra", font_size=14)
        left = 8.0
        for caption in reversed(self.recent):
            draw.text((left, top + 23), caption.words, fill=caption.colour, font_size=15)
            left += draw.textlength(caption.words, font_size=15) + 14
        draw.text((8, top + 43), shot.place, fill=_SOFT, font_size=12)
        draw.text((width - 8, top + 43), self.title, fill=_SOFT, anchor="ra", font_size=12)
        for line, text in enumerate(wrap(self.said or "", _SAID_LETTERS)[:_SAID_LINES]):
            draw.text((8, top + _PANEL + 15 * line), text, fill=_LIGHT, font_size=12)
        return np.asarray(image)


class Wall:
    """Many episodes side by side, a label below each: what it is, and how far it came."""

    def __init__(self, names: Sequence[str], columns: int, titles: dict[str, str], scale: int) -> None:
        self._names, self._columns, self._titles, self._scale = names, columns, titles, scale
        self._label = 26 * scale
        rows = -(-len(names) // columns)
        size = columns * WIDTH * scale, rows * (HEIGHT * scale + self._label)
        self._canvas = Image.new("RGB", size, _DARK)
        self._draw = ImageDraw.Draw(self._canvas)

    def show(self, place: int, replay: Replay, shot: Shot, frame: Frame) -> None:
        """Put a picture of an episode at its place."""
        left, top, right, below = self._box(place)
        scale = self._scale
        picture = Image.fromarray(frame).resize((right - left, below - top), Image.Resampling.NEAREST)
        self._canvas.paste(picture, (left, top))
        self._draw.rectangle((left, below, right, below + self._label), fill=_DARK)
        reached = [name for name, step in replay.milestones.items() if step <= shot.step]
        name, count = self._names[place], f"{len(reached)} milestone{'' if len(reached) == 1 else 's'}"
        self._draw.text((left + 4 * scale, below), name, fill=_LIGHT, font_size=10 * scale)
        self._draw.text((right - 4 * scale, below), count, fill=_LIGHT, anchor="ra", font_size=10 * scale)
        newest = self._titles.get(reached[-1], reached[-1]) if reached else ""
        self._draw.text((left + 4 * scale, below + 12 * scale), newest, fill=_MILESTONE, font_size=9 * scale)

    def end(self, place: int) -> None:
        """Darken the place of an episode that is over, and say so."""
        box = self._box(place)
        self._canvas.paste(self._canvas.crop(box).point(lambda value: value // 2), box)
        middle = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
        self._draw.text(middle, "over", fill=_LIGHT, anchor="mm", font_size=12 * self._scale)

    def picture(self) -> Frame:
        """The wall as it is, u8[H, W, 3]."""
        return np.asarray(self._canvas).copy()

    def _box(self, place: int) -> tuple[int, int, int, int]:
        width, height = WIDTH * self._scale, HEIGHT * self._scale
        left, top = place % self._columns * width, place // self._columns * (height + self._label)
        return left, top, left + width, top + height
