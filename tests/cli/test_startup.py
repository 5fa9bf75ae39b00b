"""What a command imports before it does anything: modules are counted, since times depend on the machine."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import typer

from questloop.cli.app import app

PROGRAM = """
import sys
from questloop.cli.app import main
seen = set()
for arguments in sys.argv[1:]:
    sys.argv = ["questloop", *arguments.split()]
    try:
        main()
    except SystemExit as end:
        assert end.code in (None, 0, 2), (arguments, end.code)
    print(arguments, *sorted(set(sys.modules) - seen), sep="|", file=sys.stderr)
    seen = set(sys.modules)
"""
HEAVY = {
    *("alembic", "asyncssh", "boto3", "datasets", "gymnasium", "matplotlib", "nats", "numpy", "PIL", "pyboy"),
    *(
        "ray",
        "starlette",
        "structlog",
        "torch",
        "transformers",
        "trl",
        "yaml",
    ),
}
SETTINGS = {"pydantic_settings", "questloop.settings", "questloop.setting_types", "sqlalchemy"}
ON_THE_DATABASE = (
    *(
        "jobs",
        "jobs --json",
        "jobs --status failed",
        "show JOB",
        "show JOB --json",
        "explain JOB",
        "cancel JOB",
    ),
    *("logs JOB", "vm list", "vm list --json", "vm drain gpu1", "vm remove gpu1"),
)


def _run(folder, *commands):
    """Give commands to one process, and return what each imported that none before it had."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *commands],
        env={**os.environ, "DATABASE_URL": f"sqlite:///{folder}/fleet.sqlite3"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("|") for line in done.stderr.splitlines() if "|" in line]
    imported = {line[0]: set(line[1:]) for line in lines}
    assert "questloop" in imported[commands[0]]
    return done.stdout, imported


def _names(command, words=()):
    """The words of `command` and of all that it has below it."""
    yield " ".join(words)
    for name, below in getattr(command, "commands", {}).items():
        yield from _names(below, (*words, name))


@pytest.mark.parametrize("group", [None, "fleet"])
def test_help_imports_no_more_than_it_shows(tmp_path, group):
    command: Any = typer.main.get_command(app)
    names = list(_names(command.commands[group], [group])) if group else [""]
    assert not group or {"fleet jobs", "fleet up", "fleet submit", "fleet vm add"} <= set(names)
    _, imported = _run(tmp_path, *(f"{name} --help" for name in names))
    for name, modules in imported.items():
        assert modules & (HEAVY | SETTINGS) == set(), name


def test_a_command_on_the_database_imports_no_more_than_it_uses(tmp_path):
    job = json.loads(_run(tmp_path, "fleet submit --gpus 0 --json -- echo hello")[0])["job_id"]
    _, imported = _run(tmp_path, *(f"fleet {words.replace('JOB', job)}" for words in ON_THE_DATABASE))
    for name, modules in imported.items():
        assert modules & (HEAVY | {"rich", "pygments"}) == set(), name


def test_a_call_is_answered_as_by_the_whole_command_line(tmp_path):
    """The command that is called, or what is said of one that is not there, whichever others are left out."""
    from questloop.cli.narrowing import narrowed

    whole: Any = typer.main.get_command(app)
    for name in _names(whole):
        words = name.split()
        found: Any = whole
        narrow: Any = typer.main.get_command(narrowed(app, words))
        for word in words:
            found, narrow = found.commands[word], narrow.commands[word]
        assert narrow.help == found.help
        assert [each.opts for each in narrow.params] == [each.opts for each in found.params], name
    assert narrowed(app, ["--version"]) is narrowed(app, ["flet", "jobs"]) is narrowed(app, []) is app
