"""Keeps of the command line what a call names: Typer reads the options of every command that it is given."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from typer import Typer
from typer.main import get_command_name
from typer.models import CommandInfo


def narrowed(app: Typer, words: Sequence[str]) -> Typer:
    """`app` with no other command than the one that `words` call, its groups likewise.

    Where the first word is none of its commands (an option, a slip) it is `app` itself, which then helps.
    """
    if not words:
        return app
    commands = [command for command in _commands(app) if _name(command) == words[0]]
    groups = [group for group in app.registered_groups if group.name == words[0]]
    if not (commands or groups):
        return app
    narrow = copy.copy(app)
    narrow.registered_commands = commands
    narrow.registered_groups = [copy.copy(group) for group in groups]
    for group in narrow.registered_groups:
        if group.typer_instance is not None:
            group.typer_instance = narrowed(group.typer_instance, words[1:])
    return narrow


def _commands(app: Typer) -> list[CommandInfo]:
    """The commands of `app`, and those of groups without a name, which count as its own."""
    own = list(app.registered_commands)
    for group in app.registered_groups:
        if not isinstance(group.name, str) and group.typer_instance is not None:
            own += _commands(group.typer_instance)
    return own


def _name(command: CommandInfo) -> str | None:
    if command.name or command.callback is None:
        return command.name
    return get_command_name(command.callback.__name__)
