"""Ctrl-C while a command is being loaded: one line, no traceback, the exit code of what was stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
# Interrupts itself while it imports a module: `act` is what the import makes of that.
PROGRAM = """
import os, signal, sys
module, sys.argv = sys.argv[1], ["questloop", *sys.argv[2:]]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            {act}
sys.meta_path.insert(0, Interrupts())
from questloop.__main__ import main
main()
"""
TAKEN = "os.kill(os.getpid(), signal.SIGINT)"
LOST = f"""
            try:
                {TAKEN}
                [None for _ in range(9)]
            except KeyboardInterrupt:
                pass"""
ANOTHER = f"""
            try:
                {TAKEN}
                [None for _ in range(9)]
            except KeyboardInterrupt:
                raise ImportError("initialization failed")"""
COMMANDS = {
    "dashboard": "fastapi",
    "report": "numpy",
    "verify": "questloop.storage.store",
    "evaluate": "questloop.judges",
    "reward-model": "numpy",
    "play": "numpy",
    "video": "numpy",
    "fleet jobs": "sqlalchemy",
    "fleet top": "sqlalchemy",
}


def _interrupted(folder, module, act, *words):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(act=act), module, *words],
        env={
            **os.environ,
            "PYTHONPATH": str(SRC),
            "STORE_URL": str(folder / "store"),
            "DATABASE_URL": f"sqlite:///{folder}/fleet.sqlite3",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("command", "module", "act"),
    [
        ("demo", "typer", TAKEN),
        ("demo", "questloop.settings", TAKEN),
        ("demo", "torch", TAKEN),
        ("pipeline", "torch", ANOTHER),
    ],
)
def test_a_run_that_is_stopped_while_it_loads_says_how_it_begins_again(tmp_path, command, module, act):
    ended = _interrupted(tmp_path, module, act, command, "a store", "--epochs", "2")
    said = f"stopped before anything was played; `questloop {command} 'a store' --epochs 2` starts it again"
    assert ended.stderr.splitlines()[-1] == said
    assert ended.stderr.count("stopped") == 1
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (75, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_stopped_while_it_loads_says_so_in_one_line(tmp_path, command):
    (tmp_path / "store").mkdir()
    ended = _interrupted(tmp_path, COMMANDS[command], TAKEN, *command.split())
    assert ended.stderr.splitlines()[-1] == "stopped"
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (130, "")


def test_a_command_that_is_stopped_before_it_is_known_says_so(tmp_path):
    ended = _interrupted(tmp_path, "typer", TAKEN, "verify")
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "stopped before anything was done\n"


def test_a_stop_that_an_import_lost_ends_the_program_all_the_same(tmp_path):
    ended = _interrupted(tmp_path, "fastapi", LOST, "dashboard", "--no-fleet")
    assert ended.stderr.splitlines()[-1] == "stopped"
    assert ended.returncode == 130


def test_a_command_that_is_stopped_at_work_says_so(tmp_path):
    (tmp_path / "store").mkdir()
    command = [sys.executable, "-m", "questloop", "dashboard", str(tmp_path / "store"), "--port", "0"]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(SRC)}, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr
        assert any("dashboard at http" in line for line in running.stderr)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == "stopped\n"
        assert running.wait(30) == 130
