"""Every command and test that the requirements page names exists."""

import re
from pathlib import Path

import pytest
import typer.main

from questloop.cli.app import app

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in (ROOT / "docs/requirements.md").read_text("utf-8").splitlines()
    if re.match(r"\| [A-L]\d+ ", line)
]


def test_every_row_is_there_once():
    keys = [row[0] for row in ROWS]
    assert len(keys) == len(set(keys)) == 62


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_names_what_exists(row):
    key, _, state, command, test = row
    kind, _, missing = state.partition(": ")
    assert kind in ("done", "partly", "open"), key
    assert bool(missing) == (kind != "done"), f"{key}: says what is missing where it is not done"
    if kind != "open":
        assert command, f"{key} names no command"
        assert test, f"{key} names no test"
    if test:
        path, _, name = test.strip("`").partition("::")
        assert (ROOT / path).exists(), f"{key}: {test}"
        assert f"def {name}(" in (ROOT / path).read_text("utf-8") if name else True, f"{key}: {test}"
    if command:
        assert_command(command.strip("`").split())


def assert_command(words: list[str]) -> None:
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text("utf-8"), words
        return
    if words[0] == "python":
        assert (ROOT / words[1]).exists(), words
        return
    assert words[0] == "questloop"
    command = typer.main.get_command(app)
    for word in words[1:]:
        commands = getattr(command, "commands", {})
        assert word in commands, f"no command {' '.join(words)}"
        command = commands[word]
