"""What is said on a terminal by commands that take a while to be loaded."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from questloop.cli import loop_words
from questloop.episodes.run import open_run
from questloop.settings import load
from questloop.storage.store import open_store

SRC = Path(__file__).parents[2] / "src"
SAYS = {
    ("verify", "--json"): "checking every file of the store",
    ("report", "--json"): "reading the run and writing its report",
    ("dashboard", "--port", "0", "--no-fleet"): "loading the dashboard",
}


@pytest.mark.parametrize("words", SAYS)
def test_a_command_that_loads_for_long_says_what_it_does(tmp_path, words):
    """On a terminal, within its first second or so, and not among what it prints."""
    store = open_store(str(tmp_path / "store"))
    open_run(store, load(flags={"store_url": store.url}))
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "questloop", *words, "--store", store.url],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as running:
        assert running.stdout
        os.close(theirs)
        assert os.read(ours, 1000).decode().startswith(SAYS[words])
        running.kill()
        assert SAYS[words] not in running.stdout.read()
    os.close(ours)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("takes", [0, 3 * loop_words.PATIENCE_S])
def test_only_what_takes_long_is_said_and_only_to_a_person(capsys, monkeypatch, takes, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with loop_words.said_when_slow("working"):
        time.sleep(takes)
    assert capsys.readouterr().err == ("working\n" if takes and terminal else "")
