"""Every command's help is in one style: sentences, examples that are commands, and lines that fit."""

import re
import shlex
from itertools import pairwise, takewhile

import pytest
from tests.cli.test_options import COMMANDS
from typer.testing import CliRunner

from questloop import __version__
from questloop.cli.app import app

PROSE = re.compile(r" [A-Za-z(`-]")
SENTENCE = re.compile(r"[A-Z0-9].*\.", re.DOTALL)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_sentences(name):
    command = COMMANDS[name]
    first = command.help.split("\n\n")[0]
    assert SENTENCE.fullmatch(first), first
    for item in command.params:
        said = getattr(item, "help", None)
        assert said, f"{item.name} is not explained"
        assert SENTENCE.fullmatch(said), f"{item.name}: {said}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_whose_options_there_are(name):
    command = COMMANDS[name]
    examples = re.split(r"\n\s*Examples?:\n", command.help)
    assert len(examples) == 2, "one section of examples"
    calls = [call for call in re.split(r"\n\s*\n|\n(?=\s*\S*\s*questloop )", examples[1]) if call.strip()]
    assert any(f"questloop {name}" in " ".join(call.split()) for call in calls)
    known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)}
    for call in calls:
        own = call.partition(f"questloop {name}")[2].partition("&&")[0]
        words = shlex.split(own, comments=True)
        words = words[: words.index("--")] if "--" in words else words
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known or name == "grpo train", used - known


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_fits_a_terminal(columns, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", columns)
    for name in COMMANDS:
        told = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": str(columns)})
        lines = told.stdout.splitlines()
        if name != "grpo train":  # has options of its own
            assert max(map(len, lines)) <= columns, name
        told_in_words = takewhile(lambda line: not line.startswith(" Example"), lines)
        for line, below in pairwise(told_in_words):
            if PROSE.match(line) and PROSE.match(below):
                word = below.split()[0]
                assert len(f"{line.rstrip()} {word} ") > columns, f"{name}: {word!r} belongs a line higher"


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_a_list_of_lines_in_every_help(name):
    """Neither indented nor apart below some texts, and otherwise below others."""
    examples = COMMANDS[name].help.split("Example")[1].partition("\n\n")[2]
    assert examples.startswith(("questloop", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    assert "\n\n" not in examples


def test_the_version_is_an_option_and_a_command():
    for arguments in (["--version"], ["version"]):
        assert CliRunner().invoke(app, arguments).stdout == f"{__version__}\n"
