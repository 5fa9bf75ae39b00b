"""`questloop play`: watch the game."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.game.emulator import Emulator
    from questloop.game.input_script import Input
    from questloop.game.recording import Frame

_FRAMES_A_SECOND = 60


def play(
    output: Annotated[Path, typer.Option(help="film or picture: .gif, .mp4 or .png (the last frame)")] = Path(
        "play.gif"
    ),
    script: Annotated[Path | None, typer.Option(help="play this input script")] = None,
    window: Annotated[bool, typer.Option(help="play by hand in a window")] = False,
    steps: Annotated[int, typer.Option(min=1, help="steps of the random agent")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random agent")] = 0,
    start: Annotated[str | None, typer.Option(help="start state to begin at, or 'power-on'")] = None,
    rom: Annotated[Path | None, typer.Option(help="ROM; unset: ROM_PATH or the bundled game")] = None,
    start_states: Annotated[str | None, typer.Option(help="folder or store of start states")] = None,
) -> None:
    """Watch a random agent or a recorded input script, or play by hand.

    Examples:

        questloop play --output random.mp4 --steps 600

        questloop play --script inputs.txt --start power-on --output walk.gif

        questloop play --window
    """
    from questloop import settings
    from questloop.game.emulator import Emulator
    from questloop.game.input_script import load_inputs
    from questloop.game.profiles import profile_for
    from questloop.game.recording import write_film
    from questloop.game.rom import Rom
    from questloop.game.start_states import load_start_states
    from questloop.game.window import KEYS, play_in_window

    if window and script:
        raise UsageError("play takes --script or --window, not both")
    game = settings.load(flags={"rom_path": rom, "start_states": start_states}).game
    loaded = Rom.load(game.rom_path)
    profile = profile_for(loaded)
    begin = None
    if start != "power-on":
        starts = load_start_states(loaded, profile, game.start_states, milestones=start is not None)
        begin = (starts.named(start) if start else starts.states[0]).state
    if window:
        print(KEYS)
        play_in_window(loaded, profile, begin)
        return
    inputs: Iterable[Input] = load_inputs(script) if script else _random(steps, seed, game.frame_skip)
    emulator = Emulator(loaded, profile.layout)
    if begin is not None:
        emulator.load(begin)
    frames = write_film(output, _film(emulator, inputs, game.frame_skip), _FRAMES_A_SECOND / game.frame_skip)
    print(f"{output}: {frames} frames")


def _random(steps: int, seed: int, frames: int) -> Iterator[Input]:
    import numpy as np

    from questloop.game.actions import Action
    from questloop.game.input_script import Input

    for action in np.random.default_rng(seed).integers(0, len(Action), steps):
        yield Input(Action(int(action)), frames)


def _film(emulator: Emulator, inputs: Iterable[Input], frames: int) -> Iterator[Frame]:
    from questloop.game.input_script import steps

    for item in steps(inputs, frames):
        emulator.step(item.action, item.frames, render=True)
        yield emulator.frame()
