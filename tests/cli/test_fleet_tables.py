"""Tables of the fleet: whole for programs, and right in a terminal of any width."""

import json
import os
import re
import sys

import pytest
from typer.testing import CliRunner

from questloop.cli import fleet_common
from questloop.cli.app import app
from questloop.cli.fleet_common import table

COLUMNS = ("job", "kind", "status", "reason", "created", "runs")
ROWS = [
    ("job-0123456789", "command", "running", "", "2026-01-02 03:04:05", "python -c 'print(1)'"),
    ("job-9876543210", "grpo", "failed", "out of memory", "2026-01-02 03:04:06", "SmolLM2 on data.jsonl"),
]


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("terminal", [False, True])
def test_every_cell_is_shown_and_no_line_of_a_terminal_breaks(capsys, monkeypatch, columns, terminal):
    monkeypatch.setattr(fleet_common, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    table(COLUMNS, ROWS)
    said = capsys.readouterr().out
    for cell in (*COLUMNS[:-1], *(cell for row in ROWS for cell in row)):
        assert cell in said
    lines = said.splitlines()
    assert len(lines) == (3 if not terminal or columns == 200 else len(COLUMNS) + len(COLUMNS) - 1 + 1)
    assert not terminal or max(map(len, lines)) <= columns


def test_a_table_without_rows_shows_its_columns(capsys):
    table(COLUMNS, [])
    assert capsys.readouterr().out.split() == list(COLUMNS)


def test_a_job_is_shown_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/fleet.sqlite3")
    submit = ["fleet", "submit", "--gpus", "0", "--env", "A=b c", "--json", "--", "echo", "two words"]
    job = json.loads(CliRunner().invoke(app, submit, catch_exceptions=False).stdout)["job_id"]
    shown = CliRunner().invoke(app, ["fleet", "show", job], catch_exceptions=False).stdout
    said = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in shown.split("\n\n")[0].splitlines())
    assert said["job"] == job
    assert said["arguments"] == "echo 'two words'"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", said["submitted (UTC)"])
    assert not [title for title in said if "_" in title or "memory" in title]
    assert "what happened (times in UTC)\n" in shown
