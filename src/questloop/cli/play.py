"""The command `questloop play`: watch a policy, a script or a random agent, or play by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.options import LatestEpoch, RomOption, StartStatesOption
from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.game.emulator import Emulator
    from questloop.game.input_script import Input
    from questloop.game.profile import Profile
    from questloop.game.recording import Frame
    from questloop.game.rom import Rom
    from questloop.game.state_file import SaveState

Output = Annotated[Path, typer.Option(help="Film or picture: .gif, .webp, .mp4 or .png (the last frame).")]
PolicyStore = Annotated[
    str | None, typer.Option("--store", "--checkpoint", help="Store whose trained policy plays.")
]

_FRAMES_A_SECOND = 60


def play(
    output: Output = Path("play.gif"),
    checkpoint: PolicyStore = None,
    epoch: LatestEpoch = None,
    script: Annotated[Path | None, typer.Option(help="Play this input script.")] = None,
    guide: Annotated[bool, typer.Option("--guide", help="Print the game's guide, and play nothing.")] = False,
    window: Annotated[bool, typer.Option(help="Play by hand in a window.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the policy or random agent.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the policy or random agent.")] = 0,
    start: Annotated[str | None, typer.Option(help="Start state to begin at, or 'power-on'.")] = None,
    rom: RomOption = None,
    start_states: StartStatesOption = None,
) -> None:
    """Watch a trained policy, a recorded input script or a random agent, or play by hand.

    Examples:

        questloop play --output random.mp4 --steps 600

        questloop play --store runs/demo --output policy.gif

        questloop play --script inputs.txt --start power-on --output walk.gif

        questloop play --window

        questloop play --guide
    """
    from questloop import settings
    from questloop.game.emulator import Emulator
    from questloop.game.input_script import load_inputs
    from questloop.game.input_script import steps as divided
    from questloop.game.profiles import profile_for
    from questloop.game.rom import Rom

    if len([way for way in (checkpoint, script, window) if way]) > 1:
        raise UsageError("play takes one of --store, --script and --window")
    game = settings.load(flags={"rom_path": rom, "start_states": start_states}).game
    if checkpoint:
        game = game.model_copy(update={"frame_skip": _frames_per_step(checkpoint, game.frame_skip)})
    loaded = Rom.load(game.rom_path)
    profile = profile_for(loaded, game.guide, game.game_profile)
    if guide:
        _print_guide(profile)
        return
    begin = _beginning(loaded, profile, game.start_states, start)
    if window:
        _by_hand(loaded, profile, begin)
        return
    emulator = Emulator(loaded, profile.layout)
    if begin is not None:
        emulator.load(begin)
    inputs: Iterable[Input] = _random(steps, seed, game.frame_skip)
    if script:
        inputs = list(divided(load_inputs(script), game.frame_skip))
    elif checkpoint:
        inputs = _policy(emulator, profile, checkpoint, epoch, steps, seed, game.frame_skip)
    total = len(inputs) if isinstance(inputs, list) else steps
    _write(output, emulator, inputs, total, game.frame_skip)


def _write(output: Path, emulator: Emulator, inputs: Iterable[Input], total: int, frame_skip: int) -> None:
    """Play the inputs and write what they show."""
    from questloop.game.recording import write_film
    from questloop.telemetry.progress import progress_bar, told

    with progress_bar("play", "steps") as tell:
        film = told(_film(emulator, inputs, frame_skip), total, tell)
        frames = write_film(output, film, _FRAMES_A_SECOND / frame_skip)
    print(f"{output}: {frames} frames")


def _by_hand(rom: Rom, profile: Profile, begin: SaveState | None) -> None:
    from questloop.game.window import KEYS, play_in_window

    print(KEYS)
    play_in_window(rom, profile, begin)


def _print_guide(profile: Profile) -> None:
    if profile.guide is None:
        raise UsageError(f"{profile.name} has no guide; GUIDE names one of your own")
    print(profile.guide.text)


def _beginning(rom: Rom, profile: Profile, where: str | None, name: str | None) -> SaveState | None:
    """The start state by its name, the first one where none is named; None: power-on."""
    from questloop.game.start_states import load_start_states

    if name == "power-on":
        return None
    starts = load_start_states(rom, profile, where, milestones=name is not None)
    return (starts.named(name) if name else starts.states[0]).state


def _frames_per_step(url: str, otherwise: int) -> int:
    """What the run of a store was played with."""
    from questloop.episodes.run import read_run
    from questloop.storage import keys
    from questloop.storage.store import open_store

    store = open_store(url)
    return read_run(store).frame_skip if store.exists(keys.run()) else otherwise


def _random(steps: int, seed: int, frames: int) -> Iterator[Input]:
    import numpy as np

    from questloop.game.actions import ACTION_COUNT, ACTIONS
    from questloop.game.input_script import Input

    for action in np.random.default_rng(seed).integers(0, ACTION_COUNT, steps):
        yield Input(ACTIONS[int(action)], frames)


def _policy(
    emulator: Emulator, profile: Profile, url: str, epoch: int | None, steps: int, seed: int, frames: int
) -> Iterator[Input]:
    """Actions of a trained policy; each is asked for when the one before was played."""
    import numpy as np

    from questloop.game.actions import ACTIONS, Action
    from questloop.game.input_script import Input
    from questloop.game.observation import OBSERVATION_SIZE, Encoder
    from questloop.game.walking import ground_of
    from questloop.rewards.aims import Aims
    from questloop.setting_types import AimsOf
    from questloop.storage.store import open_store
    from questloop.training.player import load_player

    player = load_player(open_store(url), epoch, seed)
    encoder = Encoder(1, profile, frames)
    taps = np.zeros((1, profile.layout.size), np.uint8)
    vector = np.zeros((1, OBSERVATION_SIZE), np.float32)
    led_by = player.led_by(profile.guide)
    aims = None
    if led_by is not AimsOf.OFF and profile.guide is not None:
        judged = led_by is AimsOf.JUDGES
        aims = Aims(1, profile, profile.guide, lambda slot: ground_of(emulator, profile), judged=judged)
        if player.aims is not None:
            aims.lead_to(player.aims)
    action = np.full(1, Action.NOP, np.uint8)
    for _ in range(steps):
        emulator.read(taps[0])
        columns = profile.columns(taps)
        encoder.encode(columns, action, vector)
        seen = vector if aims is None else np.concatenate([vector, aims.look(columns)], axis=1)
        action = player.act(seen)
        yield Input(ACTIONS[int(action[0])], frames)


def _film(emulator: Emulator, inputs: Iterable[Input], frames: int) -> Iterator[Frame]:
    from questloop.game.input_script import steps

    for item in steps(inputs, frames):
        emulator.step(item.action, item.frames, render=True)
        yield emulator.frame()
