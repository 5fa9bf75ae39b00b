"""The commands `questloop profile ...`, which make and check a game profile of your own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.errors import UsageError
from questloop.exit_codes import ExitCode
from questloop.local_files import write_file

if TYPE_CHECKING:
    from questloop.game.emulator import Emulator

app = typer.Typer(help="Write and check a game profile of your own.", no_args_is_help=True)

_MOST_SHOWN = 40


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the game: small letters, digits, _.")],
    rom: Annotated[Path, typer.Option(help="Its ROM.")],
    output: Annotated[Path | None, typer.Option(help="File to write; unset: NAME.py.")] = None,
) -> None:
    """Write a profile to fill in.

    Example:

        questloop profile new lantern --rom lantern.gbc
    """
    from questloop.game.rom import Rom
    from questloop.game.skeleton import skeleton

    path = output or Path(f"{name}.py")
    if not name.isidentifier() or name != name.lower():
        raise UsageError(f"name {name!r}: small letters, digits and _, and no digit first")
    loaded = Rom.load(rom)
    if path.exists():
        raise UsageError(f"{path} is there already; name another file by --output")
    write_file(path, skeleton(name, loaded, str(path)))
    print(f"{path}: fill in its taps, then `questloop profile check {path}`")


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="A .py file that defines PROFILE, a module or a game's name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is wrong with a profile, without its ROM.

    Example:

        questloop profile check lantern.py
    """
    from questloop.game.profile_check import faults
    from questloop.game.profiles import profiles
    from questloop.game.profiles.named import load_profile

    profile = load_profile(file, profiles())
    findings = faults(profile)
    counts = f"{profile.layout.size} bytes, {len(profile.milestones)} milestones, {len(profile.items)} items"
    if as_json:
        print(json.dumps({"profile": profile.name, "ok": not findings, "findings": findings}))
    else:
        print(*(f"FAIL  {finding}" for finding in findings), sep="\n", end="\n" if findings else "")
        print(f"{'FAIL' if findings else 'ok  '}  {profile.name}: {counts}")
    if findings:
        raise typer.Exit(ExitCode.BAD_DATA)


@app.command()
def find(
    step: Annotated[list[str], typer.Option(help="Inputs and how the byte changes: 'RIGHT 16: up'.")],
    rom: Annotated[Path | None, typer.Option(help="ROM; unset: ROM_PATH or the bundled game.")] = None,
    script: Annotated[Path | None, typer.Option(help="Input script to play first, from power-on.")] = None,
    pyboy_state: Annotated[Path | None, typer.Option(help="State file that PyBoy saved to begin at.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find where a game keeps something in its memory, by how it changes.

    A change is up, down, same, changed, +N, -N or =N. Steps are played one after the other.

    Example:

        questloop profile find --step 'RIGHT 32: up' --step 'NOP 30: same' --step 'LEFT 16: down'
    """
    from questloop.game.memory_search import Step, search

    steps = [Step.parse(text) for text in step]
    emulator = _begin(rom, script, pyboy_state)
    found = search(emulator, steps)
    emulator.close()
    if as_json:
        print(json.dumps([{"tap": each.tap, "values": each.values} for each in found]))
        return
    for each in found[:_MOST_SHOWN]:
        print(f"{each.tap}  # {' '.join(map(str, each.values))}")
    more = f"; {_MOST_SHOWN} are shown, add steps" if len(found) > _MOST_SHOWN else ""
    print(f"{len(found)} addresses changed so{more}")


def _begin(rom: Path | None, script: Path | None, pyboy_state: Path | None) -> Emulator:
    from questloop import settings
    from questloop.errors import BadDataError
    from questloop.game.emulator import Emulator
    from questloop.game.input_script import load_inputs
    from questloop.game.rom import Rom
    from questloop.game.taps import Tap, TapLayout

    loaded = Rom.load(settings.load(flags={"rom_path": rom}).game.rom_path)
    emulator = Emulator(loaded, TapLayout([Tap("nothing", None, 0xC000), Tap("more", None, 0xC001)]))
    if pyboy_state is not None:
        try:
            emulator.load(emulator.adopt(pyboy_state.read_bytes()))
        except OSError as error:
            raise BadDataError(f"--pyboy-state {pyboy_state}: {error.strerror}") from None
    for item in load_inputs(script) if script is not None else ():
        emulator.step(item.action, item.frames)
    return emulator
