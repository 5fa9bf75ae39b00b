"""What `demo` and `pipeline` say in the first second and at the end."""

import os
import shlex
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest
import typer.main
from typer.testing import CliRunner

from questloop.cli import advice, called, loop, loop_words
from questloop.cli.app import app
from questloop.episodes.run import open_run
from questloop.pipeline import loop as pipeline_loop
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import open_store


@pytest.mark.parametrize("command", ["demo", "pipeline"])
@pytest.mark.parametrize("known", [0, 1])
def test_a_run_says_first_what_it_does_and_last_what_comes_next(tmp_path, monkeypatch, command, known):
    folder = tmp_path / "a store"
    store = open_store(str(folder))
    for epoch in range(known):
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, [])
    done = pipeline_loop.RunResult([], "report.html", str(folder), 1.0)
    monkeypatch.setattr(pipeline_loop, "run_pipeline", lambda settings, epochs: done)
    monkeypatch.setenv("EPOCH_STEPS", "4096")
    result = CliRunner().invoke(app, [command, str(folder), "--epochs", "3"], catch_exceptions=False)
    first = result.stderr
    for said in ("mossgrove: 3 epochs of 4,096 steps", str(folder), "Ctrl-C is safe", "questloop dashboard"):
        assert said in first
    assert ("a new run" in first, "goes on after 1 epoch\n" in first) == (not known, bool(known))
    for said in ("dashboard", "video", "report"):
        assert f"questloop {said} '{folder}'" in result.stdout


def test_a_run_that_was_stopped_in_its_first_epoch_is_not_called_new(tmp_path):
    store = open_store(str(tmp_path))
    store.put(keys.run(), b"{}")
    lines = loop_words.opening(load(flags={"store_url": str(tmp_path)}), 2, False)
    assert any("epoch 0 was begun, and begins again" in line for line in lines)


def test_the_first_words_come_before_ray_and_torch(tmp_path):
    script = (
        "import sys; from questloop.cli import app, loop_words; from questloop.settings import load;"
        f"print(*loop_words.opening(load(flags={{'store_url': {str(tmp_path)!r}}}), 2, False), sep='\\n');"
        "print({'ray', 'torch'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert told.startswith("plays   mossgrove")
    assert told.endswith("set()\n")


def test_what_comes_next_are_commands_that_there_are(tmp_path):
    commands = typer.main.get_command(app).commands
    for line in loop_words.closing(load(flags={"store_url": str(tmp_path / "a b")})):
        words = shlex.split(line.removeprefix("next"), comments=True)
        assert words[0] == "questloop"
        context = commands[words[1]].make_context(words[1], words[2:])
        assert context.params["place"] == str(tmp_path / "a b")


def test_what_comes_next_is_called_as_this_was(tmp_path, monkeypatch):
    """After `make demo` the shell may not know `questloop`."""
    own, other = tmp_path / ".venv/bin/questloop", tmp_path / "other/questloop"
    for path in (own, other):
        path.parent.mkdir(parents=True)
        path.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(own), "demo"])
    advice.forget()
    for known, expected in (
        ("", ".venv/bin/questloop"),
        (other.parent, ".venv/bin/questloop"),
        (own.parent, "questloop"),
    ):
        monkeypatch.setenv("PATH", str(known))
        assert called.program() == expected
        assert loop_words.closing(load(flags={"store_url": "runs"}))[0].split()[1] == expected
        assert advice.complete("run `questloop verify`", app) == f"run `{expected} verify`"


def test_the_hours_are_told_where_they_end_a_run(tmp_path, monkeypatch):
    settings = load(flags={"store_url": str(tmp_path)})
    assert "48 h" in loop_words.opening(settings, None, False)[0]
    assert " h;" not in loop_words.opening(settings, 2, False)[0]
    monkeypatch.setenv("RUN_HOURS", "3")
    assert "at most 3 h" in loop_words.opening(load(flags={"store_url": str(tmp_path)}), 2, False)[0]


@pytest.mark.slow
def test_the_live_page_is_served_beside_and_ends_with_the_run(tmp_path):
    settings = load(flags={"store_url": str(tmp_path)})
    open_run(open_store(str(tmp_path)), settings)
    with loop_words.dashboard_beside(settings) as line:
        url = line.split()[-1]
        assert "Mossgrove" in _page(url)
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def _page(url):
    deadline = time.monotonic() + 60
    while True:
        try:
            return httpx.get(url, timeout=30).text
        except httpx.ConnectError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.mark.parametrize("options", [[], ["--dashboard"]])
def test_a_run_with_json_says_nothing_else_on_standard_output(tmp_path, monkeypatch, options):
    done = pipeline_loop.RunResult([], "report.html", str(tmp_path), 1.0)
    monkeypatch.setattr(pipeline_loop, "run_pipeline", lambda settings, epochs: done)
    monkeypatch.setattr(loop, "dashboard_beside", lambda settings: nullcontext("watch   http://here"))
    result = CliRunner().invoke(app, ["demo", str(tmp_path), "--json", *options], catch_exceptions=False)
    assert result.stdout.startswith('{"rows"')
    assert ("watch   http://here" in result.stderr) == bool(options)


def test_a_run_that_is_complete_says_that_nothing_more_is_played(tmp_path):
    commit_stage(open_store(str(tmp_path)), 0, Stage.ROLLOUTS, 1, [])
    settings = load(flags={"store_url": str(tmp_path)})
    told = "holds 1 epoch already; only what is missing is done"
    assert [told in loop_words.opening(settings, most, False)[1] for most in (1, 2, None)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_first_and_last_words_fit_a_terminal(tmp_path, monkeypatch, columns):
    """Sentences go on below their first word; a command stands on one line, to be copied."""
    monkeypatch.chdir(tmp_path)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(loop_words, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    settings = load(flags={"store_url": "runs/demo"})
    first, last = loop_words.opening(settings, 2, False), loop_words.closing(settings)
    lines = "\n".join([*first, *last]).splitlines()
    assert max(map(len, lines)) <= columns
    assert all(line[7] == " " and line[8] != " " for line in lines)
    assert all(("#" in line) == (columns > 60) for line in last)
    assert (len(lines) == 7) == (columns == 200)
