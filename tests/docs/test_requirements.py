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
    if re.match(r"\| [A-K]\d ", line)
]


def test_every_row_is_there_once():
    keys = [row[0] for row in ROWS]
    assert len(keys) == len(set(keys)) == 48


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_names_what_exists(row):
    key, _, state, command, test = row
    assert state in ("done", "partly", "open"), key
    if state == "done":
        assert command, f"{key} is done and names no command"
        assert test, f"{key} is done and names no test"
    if test:
        assert (ROOT / test.strip("`")).exists(), f"{key}: {test}"
    if command:
        assert_command(command.strip("`").split())


def assert_command(words: list[str]) -> None:
    assert words[0] == "questloop"
    command = typer.main.get_command(app)
    for word in words[1:]:
        commands = getattr(command, "commands", {})
        assert word in commands, f"no command {' '.join(words)}"
        command = commands[word]
