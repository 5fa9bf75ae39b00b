"""Makes commands that the terminal recommends ready to paste: with the user's own program, store and flags.

An error from below says `questloop verify --rewind 3`; whoever named a store, a settings file or a seed by a
flag needs these again, and whoever runs `.venv/bin/questloop` needs its path.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, TypeVar

import typer.main

from questloop.cli.called import program

T = TypeVar("T")
_COMMAND = re.compile(r"`((?:[A-Z_]+=\S+ )*)questloop ([a-z][^`]*)`")
_named: dict[str, str] = {}
"""what the command line named, by its long option"""


def forget() -> None:
    """Another command begins."""
    _named.clear()


def named(parameter: typer.CallbackParam, value: T) -> T:
    """Note the value of `--store`, `--config` or `--seed`; a callback of these options."""
    if value is not None:
        name = str(parameter.name).replace("place", "store")
        _named[f"--{name}"] = str(value)
    return value


def note_store(url: str) -> None:
    """The command chose its store itself."""
    _named["--store"] = url


def complete(message: str, app: typer.Typer) -> str:
    """`message` with the program, and what was named, in every command of `app` that stands in backquotes."""
    called = program()

    def completed(found: re.Match[str]) -> str:
        given = shlex.split(found[2])
        taken = _options(app, given)
        before, after = found[1], ""
        for option, value in _named.items():
            if option in taken and option not in given:
                after += f" {option} {shlex.quote(value)}"
            elif option == "--seed" and "--store" in taken:
                before += f"SEED={value} "
        return f"`{before}{called} {found[2]}{after}`"

    return _COMMAND.sub(completed, message)


def _options(app: typer.Typer, words: list[str]) -> set[str]:
    """The options of the command that `words` begin with."""
    command: Any = typer.main.get_command(app)
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return {name for parameter in command.params for name in parameter.opts}
