"""Lets the paragraphs of help texts flow to the width of the terminal."""

from __future__ import annotations

import inspect
from textwrap import dedent

import typer


def let_help_flow(app: typer.Typer) -> None:
    """Give every command of `app`, and of its groups, its docstring as help without breaks inside sentences.

    Typer keeps the line breaks of a docstring, which a terminal narrower than the source breaks once more.
    """
    for command in app.registered_commands:
        text = command.help or (command.callback.__doc__ if command.callback else None)
        command.help = flowing(text) if text else None
    for group in app.registered_groups:
        if group.typer_instance is not None:
            let_help_flow(group.typer_instance)


def flowing(text: str) -> str:
    r"""A docstring with each paragraph on one line; what is indented, as examples are, stays a list.

    Rich keeps the indent of examples below some texts and drops it below others, so that none has one.

    >>> flowing("Do it.\n\n    It takes\n    a while.\n\n    Examples:\n\n        do it\n\n        do that")
    'Do it.\n\nIt takes a while.\n\nExamples:\n\ndo it\ndo that'
    """
    told = ""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        example = paragraph.startswith(" ")
        between = "\n" if example and told and not told.endswith(":") else "\n\n"
        told += between + (dedent(paragraph) if example else paragraph.replace("\n", " "))
    return told.removeprefix("\n\n")
