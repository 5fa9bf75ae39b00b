"""The same thing has the same name in every command, and a store or a job may be given in place."""

import pytest
import typer.main
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.cli.options import job_of, jobs_of, store_of
from questloop.errors import UsageError

ROOT = typer.main.get_command(app)


def leaves(command=ROOT, path=()):
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(" ".join(path), command)]
    return [found for name, each in inner.items() for found in leaves(each, (*path, name))]


COMMANDS = dict(leaves())


def options(command):
    return {name for item in command.params for name in item.opts if name.startswith("--")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_store_is_named_by_store_or_in_place(name):
    command = COMMANDS[name]
    takes_store = "--store" in options(command)
    assert not takes_store or name == "play" or any(item.name == "place" for item in command.params)
    assert not {"--store-url", "--store_url", "--run"} & options(command)
    for item in command.params:
        speaks_of_it = "STORE_URL" in (getattr(item, "help", None) or "")
        assert not speaks_of_it or "--store" in item.opts, f"{name}: {item.name}"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith("fleet ")])
def test_a_job_is_named_by_job_or_in_place(name):
    command = COMMANDS[name]
    if any(item.name in ("job", "job_id", "jobs") for item in command.params):
        assert "--job" in options(command)
        named_in_place = {item.name for item in command.params if not item.opts[0].startswith("-")}
        assert name == "fleet submit" or named_in_place & {"place", "places"}


def test_a_command_takes_either_and_refuses_two(tmp_path):
    for arguments in (["--store", str(tmp_path)], [str(tmp_path)]):
        answer = CliRunner().invoke(app, ["verify", *arguments])
        assert f"{tmp_path}: 0 segments" in answer.output
    assert store_of("a", None) == store_of(None, "a") == store_of("a", "a") == "a"
    assert store_of(None, None) is None
    with pytest.raises(UsageError, match="name one store"):
        store_of("a", "b")


def test_jobs_are_named_once_each():
    assert job_of("j", None) == job_of(None, "j") == "j"
    assert jobs_of(["a", "b"], ["b", "c"]) == ["a", "b", "c"]
    for none in (lambda: job_of(None, None), lambda: jobs_of(None, None), lambda: job_of("a", "b")):
        with pytest.raises(UsageError):
            none()
