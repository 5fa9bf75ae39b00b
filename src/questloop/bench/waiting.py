"""Measures what a user waits for: commands that start, and a whole demo with its judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from questloop.bench.figures import Figure
from questloop.errors import MissingExtraError
from questloop.pipeline.judging import judge_epoch
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import Commit, committed_epochs, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, Store, open_store

GOAL = "essence_1"
_STARTS = 5
_LOOK_S = 0.25
_WEIGH_S = 2.0  # looking at a process's shared memory holds it up
_ALL_SEGMENTS = 1000
_COMMANDS = (("--help",), ("fleet", "jobs"), ("fleet", "vm", "list"))


@dataclass(frozen=True)
class Watched:
    """A demo as its user meets it."""

    first_step_s: float | None  # until its first update, less that update's own time
    peak_mb: float | None  # of all its processes together, what they share counted once
    seconds: float


def waiting_figures(folder: Path | None = None) -> dict[str, Figure]:
    """What starting a command and playing the demo take; the demo's store stays in `folder` where given."""
    with TemporaryDirectory(prefix="questloop-bench-") as temporary:
        place = folder or Path(temporary)
        try:
            watched = watch_demo(place)
        except MissingExtraError as error:
            return {"demo_peak_mb": Figure.missing(str(error))}
        return {
            "cli_startup_s": Figure.of(command_seconds(place), 0.5, at_most=True),
            "demo_first_step_s": _at_most(watched.first_step_s, 6.0),
            "demo_peak_mb": _at_most(watched.peak_mb, 1500.0),
            "demo_s": Figure(watched.seconds),
            **demo_figures(open_store(str(place / "store"))),
            "judge_segments_per_minute": Figure(judging_rate(str(place / "store")), target=4000.0),
        }


def command_seconds(folder: Path) -> list[float]:
    """Of every command of `_COMMANDS` the quickest of five starts, in seconds."""
    environment = os.environ | {"DATABASE_URL": f"sqlite:///{folder / 'fleet.sqlite3'}"}

    def run(arguments: tuple[str, ...]) -> float:
        began = time.perf_counter()
        command = [sys.executable, "-m", "questloop", *arguments]
        subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True)
        return time.perf_counter() - began

    return [min(run(arguments) for _ in range(_STARTS)) for arguments in _COMMANDS]


def watch_demo(folder: Path) -> Watched:
    """Play `questloop demo` in `folder` and watch it from outside; its store is `folder`/store."""
    store_path = folder / "store"
    command = [sys.executable, "-m", "questloop", "demo", "--store", str(store_path), "--json"]
    began = time.perf_counter()
    with (folder / "demo.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        first: float | None = None
        peak, weighed = 0.0, began
        while running.poll() is None:
            if time.perf_counter() - weighed > _WEIGH_S:
                peak, weighed = max(peak, tree_mb(running.pid)), time.perf_counter()
            if first is None and (update_s := _first_update(store_path)) is not None:
                first = time.perf_counter() - began - update_s
            time.sleep(_LOOK_S)
    if running.returncode:
        raise RuntimeError(f"the demo ended with {running.returncode}: {(folder / 'demo.log').read_text()}")
    return Watched(first, peak, time.perf_counter() - began)


def demo_figures(store: Store) -> dict[str, Figure]:
    """How long judging took, of the training that it goes before; how soon the first essence came."""
    commits = [_commit(store, epoch, Stage.ROLLOUTS) for epoch in committed_epochs(store, Stage.ROLLOUTS)]
    shares = [
        _judging_s(store, before) / float(str(after.info["seconds"])) for before, after in pairwise(commits)
    ]
    return {
        "judge_share": Figure.of(shares, 0.05, at_most=True) if shares else Figure.missing("one epoch"),
        "seconds_to_essence": _essence(commits),
    }


def judging_rate(store_url: str) -> float:
    """Segments a minute by the default judges, over all that the first epoch exported; no score is kept."""
    settings = load(flags={"store_url": store_url, "judge_budget": _ALL_SEGMENTS})
    began = time.perf_counter()
    found = judge_epoch(settings, open_store(store_url), 0, keep=False, announce=lambda _: None)
    return 60 * found.summary.judged / (time.perf_counter() - began)


def _judging_s(store: Store, played: Commit) -> float:
    """From the end of an epoch's play to the end of what was learned from its judgements."""
    learned: datetime = _commit(store, played.epoch, Stage.REWARD_MODEL).created
    return (learned - played.created).total_seconds()


def _essence(commits: list[Commit]) -> Figure:
    seconds = 0.0
    for commit in commits:
        info: dict[str, Any] = dict(commit.info)
        if (step := info["milestone_steps"].get(GOAL)) is not None:
            seconds += (step - info["step_start"]) / info["steps_per_second"]
            return Figure(seconds, note=f"of training, {step:,} steps")
        seconds += info["seconds"]
    return Figure.missing("no episode came so far")


def tree_mb(pid: int) -> float:
    """Proportional resident memory of a process and its descendants, MB; 0 for one that has ended."""
    try:
        import psutil
    except ImportError:
        raise MissingExtraError("the demo's memory", "peers") from None
    total = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0.0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it ended meanwhile
            continue
    return total / 2**20


def _first_update(store_path: Path) -> float | None:
    """Seconds that the first update took; None before it is told."""
    try:
        told = json.loads((store_path / keys.progress()).read_text())
    except (OSError, ValueError):
        return None
    if told["stage"] != Stage.ROLLOUTS.value or not told["step"] or not told["rate"]:
        return None
    return float(told["step"] / told["rate"])


def _commit(store: Store, epoch: int, stage: Stage) -> Commit:
    commit = read_commit(store, epoch, stage)
    if commit is None:
        raise NotFound(keys.commit(epoch, stage))
    return commit


def _at_most(value: float | None, target: float) -> Figure:
    return Figure(value, target=target, at_most=True)
