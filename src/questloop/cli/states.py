"""The commands `questloop states ...`, which capture, list and verify start states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli.options import JsonOption, RomOption
from questloop.errors import QuestloopError, UsageError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.game.profile import Profile
    from questloop.game.rom import Rom
    from questloop.game.start_states import StartState
    from questloop.game.state_file import SaveState

app = typer.Typer(help="Capture, list and verify start states.", no_args_is_help=True)

WhereOption = Annotated[
    str | None, typer.Option("--in", help="Folder or store URL; unset: START_STATES, else 'states'.")
]


@app.command()
def capture(
    name: Annotated[str | None, typer.Argument(help="Name of the state.")] = None,
    script: Annotated[Path | None, typer.Option(help="Play this input script from power-on.")] = None,
    window: Annotated[bool, typer.Option(help="Play by hand; the state is taken when you close it.")] = False,
    pyboy_state: Annotated[Path | None, typer.Option(help="Take a state file that PyBoy saved.")] = None,
    intro: Annotated[
        bool, typer.Option(help="Press through title, name and opening until the player has control.")
    ] = False,
    milestones: Annotated[
        bool, typer.Option(help="Replay the game's walkthrough, one state per milestone.")
    ] = False,
    from_state: Annotated[
        str | None, typer.Option("--from", help="Begin at this state, not at power-on.")
    ] = None,
    weight: Annotated[float, typer.Option(min=0, help="How often it is chosen, relative to others.")] = 1.0,
    rom: RomOption = None,
    where: WhereOption = None,
) -> None:
    """Make start states.

    Examples:

        questloop states capture after-intro --window --rom zelda.gbc

        questloop states capture --intro --rom zelda.gbc

        questloop states capture cave --script inputs.txt --weight 2

        questloop states capture --milestones
    """
    from questloop.game.start_states import BEGINNING, StartState, beginnings, write_start_state
    from questloop.telemetry.progress import progress_bar, told

    ways = [way for way in (script, window, pyboy_state, intro, milestones) if way]
    if len(ways) != 1 or (bool(name) == milestones and not intro):
        raise UsageError(
            "states capture takes NAME and one of --script, --window, --pyboy-state; or --intro;"
            " or --milestones"
        )
    rom_, profile = _game(rom)
    folder = _where(where)
    if milestones:
        if not profile.walkthrough:
            raise UsageError(f"profile {profile.name} ships no walkthrough; capture states by NAME")
        with progress_bar("walkthrough", "states") as tell:
            states = told(beginnings(rom_, profile, milestones=True), len(profile.milestones) + 1, tell)
            items = list(states)
    elif intro:
        items = [StartState(name or BEGINNING, _opening(rom_, profile), weight)]
    else:
        begin = _named(rom_, profile, folder, from_state) if from_state else None
        state = _play(rom_, profile, begin, script=script, pyboy_state=pyboy_state)
        items = [StartState(str(name), state, weight)]
    for item in items:
        write_start_state(folder, item)
        print(f"{item.name}: {folder}/{item.name}.state, weight {item.weight:g}")


@app.command(name="list")
def list_states(where: WhereOption = None, as_json: JsonOption = False) -> None:
    """List start states, with what they were made with.

    Example:

        questloop states list --in states
    """
    from questloop.game.start_states import read_start_states

    items = read_start_states(_where(where))
    if as_json:
        print(json.dumps([_describe(item) for item in items]))
        return
    for item in items:
        made_with = f"ROM {item.state.rom_sha256[:12]} PyBoy {item.state.pyboy_version}"
        print(f"{item.name:24} weight {item.weight:<5g} {made_with}")


@app.command()
def verify(rom: RomOption = None, where: WhereOption = None, as_json: JsonOption = False) -> None:
    """Check that every start state fits this ROM, PyBoy and profile, and plays sanely.

    Example:

        questloop states verify --in states --rom zelda.gbc
    """
    from questloop.game.emulator import PYBOY_VERSION
    from questloop.game.gates import check_game
    from questloop.game.start_states import read_start_states
    from questloop.telemetry.progress import progress_bar, told

    rom_, profile = _game(rom)
    items = read_start_states(_where(where))
    problems: dict[str, list[str]] = {}
    with progress_bar("verify", "states") as tell:
        for item in told(items, len(items), tell):
            try:
                item.state.require(rom_.sha256, PYBOY_VERSION, profile.layout.hash)
                findings = check_game(rom_, profile, item, steps=400)
                problems[item.name] = [finding.reason for finding in findings]
            except QuestloopError as error:
                problems[item.name] = [str(error)]
    if as_json:
        print(json.dumps([{"name": n, "ok": not found, "problems": found} for n, found in problems.items()]))
    else:
        for name, found in problems.items():
            print(f"{'FAIL' if found else 'ok  '}  {name}", *found, sep="\n      ")
    if any(problems.values()):
        raise typer.Exit(ExitCode.BAD_DATA)


def _describe(item: StartState) -> dict[str, Any]:
    return {
        "name": item.name,
        "weight": item.weight,
        "rom_sha256": item.state.rom_sha256,
        "pyboy": item.state.pyboy_version,
    }


def _game(path: Path | None) -> tuple[Rom, Profile]:
    from questloop import settings
    from questloop.game.profiles import profile_for
    from questloop.game.rom import Rom

    game = settings.load(flags={"rom_path": path}).game
    rom = Rom.load(game.rom_path)
    return rom, profile_for(rom, game.guide, game.game_profile)


def _where(given: str | None) -> str:
    from questloop import settings

    return given or settings.load().game.start_states or "states"


def _named(rom: Rom, profile: Profile, folder: str, name: str) -> SaveState:
    from questloop.game.start_states import load_start_states

    return load_start_states(rom, profile, folder).named(name).state


def _opening(rom: Rom, profile: Profile) -> SaveState:
    from questloop.game.opening import play_opening

    opening = play_opening(rom, profile)
    print(f"the player has control {opening.frames} frames after power-on")
    return opening.state


def _play(
    rom: Rom, profile: Profile, begin: SaveState | None, *, script: Path | None, pyboy_state: Path | None
) -> SaveState:
    from questloop.errors import BadDataError
    from questloop.game.emulator import Emulator
    from questloop.game.input_script import load_inputs
    from questloop.game.window import KEYS, play_in_window

    if script is None and pyboy_state is None:
        print(KEYS)
        return play_in_window(rom, profile, begin)
    emulator = Emulator(rom, profile.layout)
    if begin is not None:
        emulator.load(begin)
    if pyboy_state is not None:
        try:
            data = pyboy_state.read_bytes()
        except OSError as error:
            raise BadDataError(f"--pyboy-state {pyboy_state}: {error.strerror}") from None
        emulator.load(emulator.adopt(data))
    for item in load_inputs(script) if script is not None else ():
        emulator.step(item.action, item.frames)
    return emulator.save()
