"""The bundled game, the real command and Ray: killed, and with its runners and its head lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from questloop.exit_codes import ExitCode
from questloop.storage import keys
from questloop.storage.store import open_store

from .pipeline import Tally, finished, unfinished

SMALL = {
    "EPOCH_STEPS": "2048",
    "FRAME_SKIP": "4",
    "RAY_WORKERS": "1",
    "ENVS_PER_WORKER": "4",
    "EPISODE_LENGTH": "200",
    "BATCH_SIZE": "512",
    "MINIBATCH_SIZE": "128",
    "EXPORT_SEGMENTS_PER_EPOCH": "all",
    "JUDGE_VOTES": "1",
    "LOW_WATER_MB": "0",
}
HEAD_PATIENCE = {"RAY_gcs_rpc_server_reconnect_timeout_s": "2"}
"""Ray waits a minute for a lost head to come back, for which these runs are too short."""
_GIVEN_UP = "Failed to connect to GCS"
TIMEOUT_S = 400.0


class _Command:
    """`questloop demo` in a process group of its own."""

    def __init__(self, store: Path, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        self.path = Path(f"{store}.log")
        with self.path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "questloop.cli.app", "demo", "--store", str(store), "--json"],
                env={**os.environ, **SMALL, "PYTHONPATH": "src", "PYTHONWARNINGS": "ignore", **environment},
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> tuple[int, str]:
        """Its exit code and last line; one that hangs is killed and has -SIGKILL."""
        try:
            code = self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL, "it hung"
        return code, self.said()

    def said(self) -> str:
        """The last line of its standard error."""
        lines = self.path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def processes(self, part: str) -> list[int]:
        """Its descendants whose command line contains `part`."""
        parents, found = {self.process.pid}, []
        for pid, parent, args in sorted(_processes()):
            if parent in parents:
                parents.add(pid)
                if part in args:
                    found.append(pid)
        return found


def _processes() -> Iterator[tuple[int, int, str]]:
    """Every process: its id, its parent's and its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            yield int(folder.name), int(parent), (folder / "cmdline").read_bytes().decode(errors="replace")


def faults(folder: Path, rng: random.Random, kills: int) -> list[Tally]:
    """Kill the whole, a runner and Ray's head; the same command goes on."""
    killed, runner, head = (
        Tally("the bundled game: kill -9"),
        Tally("the bundled game: a Ray worker lost"),
        Tally("the bundled game: Ray's head lost"),
    )
    reference = folder / "game-reference"
    code, said = _Command(reference).wait()
    assert code == 0, said
    there = open_store(str(reference))
    path = folder / "game-killed"
    for _ in range(kills):
        command = _Command(path)
        _sleep(command, rng.uniform(3, 25))
        if command.process.poll() is not None:
            break
        command.kill()
        killed.injected += 1
        wrong = unfinished(open_store(str(path)))
        killed.check(not wrong, wrong)
    _finish(path, there, killed)

    path = folder / "game-runner"
    command = _Command(path)
    if _when_it_plays(command, path, lambda: command.processes("ray::QuestRunner")):
        runner.injected += 1
        code, said = command.wait()
        # Its slots began new episodes: the run is whole, and another one than the reference.
        wrong = f"ended with {code}: {said}" if code else unfinished(open_store(str(path)))
        runner.check(not wrong, wrong)
    else:
        command.kill()

    path = folder / "game-head"
    command = _Command(path, HEAD_PATIENCE)
    if _when_it_plays(command, path, lambda: command.processes("gcs_server")):
        head.injected += 1
        code, said = command.wait()
        if code == 0:  # over before Ray gave up
            wrong = finished(open_store(str(path)), there)
        else:
            # Ray's core ends the process itself: with 1, and with a line of its own in place of ours.
            by_ray = code == 1 and _GIVEN_UP in command.path.read_text(errors="replace")
            head.check(by_ray or code == ExitCode.UNAVAILABLE, f"it ended with {code}: {said}")
            wrong = unfinished(open_store(str(path)))
        head.check(not wrong, wrong)
    else:
        command.kill()
    _finish(path, there, head)
    return [killed, runner, head]


def _finish(path: Path, there: object, tally: Tally) -> None:
    code, said = _Command(path).wait()
    wrong = f"ended with {code}: {said}" if code else finished(open_store(str(path)), there)  # type: ignore[arg-type]
    tally.check(not wrong, wrong)


def _when_it_plays(command: _Command, store: Path, victims: Callable[[], list[int]]) -> bool:
    """Kill what `victims` finds once the first epoch has steps; whether that happened."""
    progress = store / keys.progress()
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and command.process.poll() is None:
        with suppress(FileNotFoundError, ValueError):
            now = json.loads(progress.read_text())
            if now["stage"] == "rollouts" and now["step"] > 0 and (pids := victims()):
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.02)
    return False


def _sleep(command: _Command, seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        command.process.wait(seconds)
