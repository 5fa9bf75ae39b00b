"""Progress of long tasks: bars for a person, `progress.json` for programs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as RichTask
from rich.text import Text

from questloop.telemetry.logs import get_logger

T = TypeVar("T")
Tell = Callable[[int, int], None]
"""Called with what is done and of how many."""

SHOW_AFTER_S = 2.0
BEAT_S = 4.0
OFTEN_FOR_S = 60.0
WRITE_EVERY_S = 2.0
_WITH_RATE = 72  # characters of a terminal that has room for a rate
_BESIDE_BAR = 60  # characters that title, counts, rate and time left take beside the bar
FLUSH_S = 5.0

log = get_logger(__name__)


@contextmanager
def heartbeat(beat: Callable[[float], None]) -> Iterator[None]:
    """Call `beat` with the seconds so far while the block runs: every 4 s for a minute, then every minute."""
    over, began = threading.Event(), time.monotonic()

    def work() -> None:
        while not over.wait(BEAT_S if time.monotonic() - began < OFTEN_FOR_S else OFTEN_FOR_S):
            beat(time.monotonic() - began)

    thread = threading.Thread(target=work, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def stage_progress(title: str, unit: str, console: Console, at_once: bool = True) -> Iterator[Tell]:
    """As `progress_bar`, but from the first moment, before anything is done, unless `at_once` is false.

    Where the console is no terminal it is a line every few seconds, and after a minute one every minute.
    """
    if console.is_terminal:
        with progress_bar(title, unit, console, at_once=at_once) as tell:
            yield tell
        return
    at = ""

    def tell_line(done: int, total: int) -> None:
        nonlocal at
        at = f": {done:,} of {total:,} {unit}"

    with heartbeat(lambda seconds: console.print(f"  {title}{at}, {seconds:.0f} s", soft_wrap=True)):
        yield tell_line


@contextmanager
def progress_bar(
    title: str, unit: str = "", console: Console | None = None, at_once: bool = False
) -> Iterator[Tell]:
    """A bar with rate and time left on standard error, once the task has taken 2 s, or at once.

    Nothing is printed where standard error is no terminal.
    """
    console = console or Console(stderr=True)
    wide = console.width >= _WITH_RATE
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=max(6, min(24, console.width - _BESIDE_BAR))),
        _Count(),
        *((_Rate(unit),) if wide else ()),
        _TimeLeft(),
    )
    bars = Progress(*columns, console=console, disable=not console.is_terminal)
    task = bars.add_task(title, total=None)
    began = time.monotonic()
    if at_once:
        bars.start()

    def tell(done: int, total: int) -> None:
        bars.update(task, completed=done, total=total)
        if not bars.live.is_started and time.monotonic() - began > SHOW_AFTER_S:
            bars.start()

    try:
        yield tell
    finally:
        bars.stop()


def told(items: Iterable[T], total: int, tell: Tell) -> Iterator[T]:
    """The items, each told of when the next one is asked for."""
    tell(0, total)
    for done, item in enumerate(items, 1):
        yield item
        tell(done, total)


class _Count(ProgressColumn):
    def render(self, task: RichTask) -> Text:
        if task.total is None:
            return Text("starting", style="progress.remaining")
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}", style="progress.download")


class _TimeLeft(TimeRemainingColumn):
    """Nothing where it is not known."""

    def render(self, task: RichTask) -> Text:
        return Text("") if task.time_remaining is None else super().render(task)


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: RichTask) -> Text:
        if task.speed is None:
            return Text("")
        rate = f"{task.speed:.1f}" if task.speed < 10 else f"{task.speed:,.0f}"
        return Text(f"{rate} {self._unit}/s" if self._unit else f"{rate}/s")


class ProgressFile:
    """Writes `progress.json` by `write`, at most every two seconds but for what ends a stage or fails.

    It writes in a thread and logs what fails: a store that is slow or away holds nobody up.

    Document: run, epoch, stage, step, steps_total, rate (1/s), eta_s, started, updated, latest (the latest
    epoch's table), errors (the last 20), stopped (by a person or a signal), and training (episodes, return,
    rooms, where the agents are now, curve and visits of the epoch so far, curriculum; None in other stages).
    """

    def __init__(
        self, write: Callable[[bytes], object], run: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._writer, self._clock = LatestWriter(write, "progress"), clock
        self._written: float | None = None
        self._document: dict[str, Any] = {
            "schema_version": 1,
            "run": run,
            "epoch": None,
            "stage": None,
            "step": 0,
            "steps_total": None,
            "rate": None,
            "eta_s": None,
            "training": None,
            "started": _now(),
            "updated": None,
            "latest": None,
            "errors": [],
            "stopped": False,
        }

    def update(
        self,
        epoch: int,
        stage: str,
        step: int,
        steps_total: int,
        rate: float | None = None,
        training: dict[str, Any] | None = None,
    ) -> None:
        """Where the stage is; `rate` in steps per second; `training`: what training alone knows."""
        began = (epoch, stage) != (self._document["epoch"], self._document["stage"])
        eta_s = round((steps_total - step) / rate, 1) if rate else None
        rate = round(rate, 2) if rate else None
        self._document |= {"epoch": epoch, "stage": stage, "step": step, "steps_total": steps_total}
        self._document |= {"rate": rate, "eta_s": eta_s, "training": training, "stopped": False}
        self._put(now=began or step >= steps_total)

    def finish_epoch(self, table: dict[str, Any]) -> None:
        """The epoch's row of the closing table."""
        self._document["latest"] = table
        self._put(now=True)
        self.flush()

    def finish(self) -> None:
        """The run is over."""
        self._document |= {"stage": "finished", "eta_s": 0.0}
        self._put(now=True)
        self.flush()

    def stop(self) -> None:
        """The run was stopped in the stage that it was in; it may go on later."""
        self._document |= {"stopped": True, "rate": None, "eta_s": None}
        self._put(now=True)
        self.flush()

    def error(self, message: str) -> None:
        """Something that a person should see."""
        self._document["errors"] = [*self._document["errors"], {"at": _now(), "message": message}][-20:]
        self._put(now=True)
        self.flush()

    def flush(self) -> None:
        """Wait for the last write, for a few seconds at most."""
        self._writer.flush(FLUSH_S)

    def _put(self, now: bool) -> None:
        if not now and self._written is not None and self._clock() - self._written < WRITE_EVERY_S:
            return
        self._written = self._clock()
        self._document["updated"] = _now()
        self._writer.put(json.dumps(self._document, allow_nan=False).encode() + b"\n")


class LatestWriter:
    """Writes the newest of what it was given, in a thread of that name; what fails is logged."""

    def __init__(self, write: Callable[[bytes], object], name: str) -> None:
        self._write, self._name = write, name
        self._waiting: bytes | None = None
        self._busy = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, data: bytes) -> None:
        """Write `data` soon, in place of what waits still."""
        with self._changed:
            self._waiting = data
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def flush(self, timeout_s: float) -> None:
        """Wait until all is written, for `timeout_s` at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is None and not self._busy, timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting is not None)
                data, self._waiting, self._busy = self._waiting, None, True
            try:
                self._write(data or b"")
            except Exception as error:
                log.warning(f"{self._name} not written", error=str(error))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
