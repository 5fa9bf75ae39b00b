"""Plays a game from power-on to the moment when the player has control, by looking at its memory.

Games with a walkthrough need none of it. What is pressed depends on what holds the player up: text is read on
with A, an open menu is closed with Start, and everything else is pressed through by Start and A in turn. It
stops once the player has had control for a while, so that a moment between two scenes is not taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from questloop.errors import BadDataError
from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.input_script import Input
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.state import GameState, decode
from questloop.game.state_file import SaveState

MOST_FRAMES = 36_000
"""Ten minutes of the game: an opening that takes longer is not one that pressing buttons ends."""

_LOOK_FRAMES = 4
_PRESS_FRAMES, _LET_GO_FRAMES = 8, 16
_STEADY_FRAMES = 120
_THROUGH = (Action.START, Action.A, Action.A, Action.START, Action.A, Action.A, Action.A)
"""Through title, file and name: Start first, since A alone would type a name for ever."""


@dataclass(frozen=True)
class Opening:
    """The state at which the player has control, and the inputs from power-on that lead there."""

    state: SaveState
    inputs: tuple[Input, ...]
    frames: int


def play_opening(rom: Rom, profile: Profile, most_frames: int = MOST_FRAMES) -> Opening:
    """Play from power-on until the player has control. Raises `BadDataError` that says what held it up."""
    emulator = Emulator(rom, profile.layout)
    inputs: list[Input] = []
    frames = 0
    try:
        for item in _presses(emulator, profile):
            inputs.append(item)
            frames += item.frames
            if frames > most_frames:
                raise BadDataError(_stuck(rom, emulator, profile, frames))
        return Opening(emulator.save(), tuple(inputs), frames)
    finally:
        emulator.close()


def _presses(emulator: Emulator, profile: Profile) -> Iterator[Input]:
    """What is played; ends once control has lasted."""
    turn = steady = 0
    while steady < _STEADY_FRAMES:
        state = _state(emulator, profile)
        if state.has_control:
            steady += _LOOK_FRAMES
            yield _step(emulator, Action.NOP, _LOOK_FRAMES)
            continue
        steady = 0
        action = _button(state, turn)
        turn += action is not Action.A or state.text_index is None
        yield _step(emulator, action, _PRESS_FRAMES)
        for _ in range(0, _LET_GO_FRAMES, _LOOK_FRAMES):
            if not _state(emulator, profile).has_control:
                yield _step(emulator, Action.NOP, _LOOK_FRAMES)


def _button(state: GameState, turn: int) -> Action:
    if state.text_index is not None:
        return Action.A
    return _THROUGH[turn % len(_THROUGH)]


def _step(emulator: Emulator, action: Action, frames: int) -> Input:
    emulator.step(action, frames)
    return Input(action, frames)


def _state(emulator: Emulator, profile: Profile) -> GameState:
    row = np.zeros(profile.layout.size, np.uint8)
    emulator.read(row)
    return decode(row, profile)


def _stuck(rom: Rom, emulator: Emulator, profile: Profile, frames: int) -> str:
    state = _state(emulator, profile)
    shown = f"text {state.text_index:x}" if state.text_index is not None else "no text"
    return (
        f"the opening of {rom.name} gave no control in {frames} frames (room {state.group}:{state.room:02x},"
        f" menu {state.menu}, {shown}): play it by hand with `questloop states capture NAME --window`"
    )
