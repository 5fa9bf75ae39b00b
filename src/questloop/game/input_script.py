"""Recorded inputs as text, one `ACTION FRAMES` per line.

# leave the house
DOWN 48
A 8        # pressed for the first half, 4 frames
NOP 60
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from questloop.errors import BadDataError
from questloop.game.actions import BUTTONS, Action, Button

_MOST_FRAMES = 1_000_000


@dataclass(frozen=True)
class Input:
    """A button held (A, B, START: pressed, see `Emulator`) for `frames` frames."""

    action: Button
    frames: int


def parse_inputs(text: str, source: str = "input script") -> list[Input]:
    """Read a script; `BadDataError` names `source`, the line and what is allowed."""
    inputs = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, frames = words[0].upper(), words[1] if len(words) == 2 else ""
        if name not in BUTTONS or not frames.isdecimal() or not 0 < int(frames) <= _MOST_FRAMES:
            allowed = ", ".join(BUTTONS)
            raise BadDataError(f"{source}, line {number}: {line.strip()!r} is not ACTION FRAMES ({allowed})")
        inputs.append(Input(BUTTONS[name], int(frames)))
    return inputs


def load_inputs(path: Path) -> list[Input]:
    """Read a script file."""
    try:
        return parse_inputs(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise BadDataError(f"input script {path}: {error.strerror}; give a readable text file") from None
    except UnicodeDecodeError:
        raise BadDataError(f"input script {path} is not UTF-8 text") from None


def format_inputs(inputs: Iterable[Input]) -> str:
    """The text of a script; d-pad and NOP inputs that follow their like become one line."""
    merged: list[Input] = []
    for item in inputs:
        if merged and merged[-1].action is item.action and _is_held(item.action):
            merged[-1] = Input(item.action, merged[-1].frames + item.frames)
        else:
            merged.append(item)
    return "".join(f"{item.action.name} {item.frames}\n" for item in merged)


def steps(inputs: Iterable[Input], frames: int) -> Iterator[Input]:
    """The same inputs in steps of at most `frames` frames; a press of a button stays one step."""
    for item in inputs:
        if not _is_held(item.action):
            yield item
            continue
        for start in range(0, item.frames, frames):
            yield Input(item.action, min(frames, item.frames - start))


def _is_held(action: Button) -> bool:
    return action < Action.A or action is Action.NOP
