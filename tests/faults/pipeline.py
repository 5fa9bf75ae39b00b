"""Small pipelines in forked processes: one interpreter is loaded once, and every kill costs a fork."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from questloop.episodes.audit import remove_orphans
from questloop.episodes.findings import Kind
from questloop.episodes.reader import SegmentReader
from questloop.errors import QuestloopError
from questloop.pipeline import loop
from questloop.pipeline.audit import audit_run
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store

from .fake import play_the_fake, record, world

EPOCHS = 2
SMALL: dict[str, Any] = {
    "epoch_steps": 512,
    "envs_per_worker": 4,
    "batch_size": 256,
    "minibatch_size": 128,
    "ppo_epochs": 1,
    "export_segments_per_epoch": "all",
    "judge_votes": 1,
    "low_water_mb": 0,
}
TIMEOUT_S = 240.0
Prepare = Callable[[], None]
at_end: list[Callable[[], None]] = []
"""called in a pipeline's process when it has finished"""


@dataclass
class Tally:
    """Faults of one kind, and what became of them."""

    fault: str
    injected: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def survived(self) -> int:
        return self.injected - min(self.injected, len(self.lost))

    def check(self, good: bool, says: str) -> None:
        """Count a fault as lost where what must hold after it does not."""
        if not good:
            self.lost.append(says)

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "injected": self.injected,
            "survived": self.survived,
            "lost": self.lost,
        }


@dataclass
class Process:
    """A pipeline in a fork of this process; what it says is in `log`."""

    pid: int
    log: Path

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Its exit code, or minus the signal that ended it; one that hangs is killed and is an error."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        self.kill()
        raise AssertionError(f"a pipeline hung for {timeout_s:.0f} s: {self.said()}")

    def kill(self) -> int:
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def said(self) -> str:
        """The last line of its standard error."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


@contextmanager
def forked(serve: Callable[[], None]) -> Iterator[None]:
    """Run `serve`, which does not return, in a process of its own for as long as the context lasts."""
    pid = os.fork()
    if pid == 0:
        try:
            serve()
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@dataclass
class Fake:
    """Starts fake pipelines below `folder`, all with the same settings and so with the same result."""

    folder: Path
    tape: Path
    epochs: int = EPOCHS
    settings: dict[str, Any] = field(default_factory=dict)

    def make(self, url: str, **changed: Any) -> Settings:
        return Settings(**(SMALL | self.settings | {"store_url": url} | changed))

    def start(self, url: str, prepare: Prepare = lambda: None, **changed: Any) -> Process:
        """Start a pipeline; `prepare` runs in its process first."""
        log = self.folder / f"log-{time.monotonic_ns()}"
        pid = os.fork()
        if pid == 0:
            _be_a_pipeline(log, lambda: self._run(url, prepare, changed))
        return Process(pid, log)

    def run(self, url: str, prepare: Prepare = lambda: None, **changed: Any) -> tuple[int, str]:
        """Run a pipeline to its end; its exit code and its last line."""
        process = self.start(url, prepare, **changed)
        return process.wait(), process.said()

    def preload(self, url: str) -> None:
        """Run one pipeline to its end, and load what it loaded here, where every fork has it."""
        loaded = self.folder / "loaded"

        def tell() -> None:
            at_end.append(lambda: loaded.write_text("\n".join(sys.modules)))

        world(self.tape)
        code, said = self.run(url, tell)
        assert code == 0, said
        for name in loaded.read_text().splitlines():
            if name not in sys.modules and not name.startswith("__"):
                with suppress(Exception):
                    importlib.import_module(name)

    def _run(self, url: str, prepare: Prepare, changed: dict[str, Any]) -> None:
        play_the_fake(self.tape)
        prepare()
        loop.run_pipeline(self.make(url, **changed), self.epochs)


def _be_a_pipeline(log: Path, run: Callable[[], None]) -> None:
    """In the fork: never returns."""
    code = 1
    try:
        with open(log, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            run()
            for act in at_end:
                act()
            code = 0
        except QuestloopError as error:
            code = int(error.exit_code)
            print(f"error: {error}", file=sys.stderr)
        except BaseException:
            traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


# What must hold


def facts(store: Store, epochs: int = EPOCHS) -> dict[int, Any]:
    """What two equal runs share: steps, trajectories, segments, scores and reward models."""
    found = {}
    for epoch in range(epochs):
        played, judged, learned = (read_commit(store, epoch, stage) for stage in Stage)
        if played is None or judged is None or learned is None:
            continue
        found[epoch] = {
            "steps": (played.info["step_start"], played.info["step_end"]),
            "trajectories": played.info["trajectory_hashes"],
            "segments": [name.rsplit("-f", 1)[0] for name in SegmentReader(store).list(epoch)],
            "scores": judged.info["judged"],
            "reward_model": learned.info["sha256"],
        }
    return found


def names(store: Store) -> list[str]:
    """Every key of a finished run, without what counts its writers."""
    of_writers = keys.lease_prefix(), keys.sessions_prefix(), keys.progress()
    kept = []
    for entry in store.list():
        if not entry.key.startswith(of_writers):
            kept.append("/".join(part.rsplit("-f", 1)[0] for part in entry.key.split("/")))
    return sorted(kept)


def unfinished(store: Store) -> str:
    """Why a store in the middle of a run is not well; empty: it is."""
    found = audit_run(store)
    wrong = [item for item in found.findings if item.kind is not Kind.ORPHAN]
    return "; ".join(f"{item.kind}: {item.key}: {item.detail}" for item in wrong[:3])


def finished(store: Store, reference: Store, epochs: int = EPOCHS, without: Collection[str] = ()) -> str:
    """Why a finished run is not the reference run exactly once; empty: it is. Removes its orphans.

    `without`: objects that a repair took away.
    """
    wrong = unfinished(store)
    if wrong:
        return wrong
    if facts(store, epochs) != facts(reference, epochs):
        return "its steps, segments, scores or models are not those of an undisturbed run"
    remove_orphans(store, audit_run(store))
    left = audit_run(store)
    if left.findings:
        return f"after the repair: {left.findings[0]}"
    here, there = ([key for key in names(each) if key not in without] for each in (store, reference))
    if here != there:
        odd = sorted(set(here) ^ set(there)) or [key for key in here if here.count(key) > 1]
        return f"objects differ from an undisturbed run's: {odd[:3]}"
    return ""


def copy_of(store: Path, to: Path) -> Path:
    """A copy of a folder store."""
    shutil.copytree(store, to)
    return to


if __name__ == "__main__":  # one undisturbed run, for tests: `python -m tests.faults.pipeline FOLDER`
    into = Path(sys.argv[1])
    Fake(into, record(into / "tape.npz"))._run(str(into / "store"), lambda: None, {})
