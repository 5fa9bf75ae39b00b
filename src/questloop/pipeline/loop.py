"""The training loop: rollouts, judges, reward model, next epoch; it resumes where it stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType

from questloop.episodes.retention import retire_epochs
from questloop.errors import QuestloopError
from questloop.exit_codes import ExitCode
from questloop.pipeline import stages
from questloop.pipeline.context import Context, open_context
from questloop.pipeline.display import Display
from questloop.report.films import MOST_UNASKED, film_best
from questloop.report.report import write_report
from questloop.report.summary import milestone_titles, sentences
from questloop.report.table import Row, rows
from questloop.settings import Settings
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import Stage
from questloop.telemetry.progress import heartbeat
from questloop.training.cluster import require_gpu
from questloop.training.trainer import Trainer


class Stopped(QuestloopError):
    """Ctrl-C or SIGTERM: the run is whole and the same command goes on."""

    exit_code = ExitCode.PREEMPTED
    prefix = ""


@dataclass(frozen=True)
class RunResult:
    """What a finished loop leaves."""

    rows: list[Row]
    report: str
    store: str
    seconds: float
    summary: tuple[str, ...] = ()  # what the rows come to, in sentences
    film: str | None = None  # where the best episode of the last epoch is seen; None: it was not filmed


def run_pipeline(
    settings: Settings,
    epochs: int | None = None,
    display: Display | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Run epochs until RUN_HOURS are over or `epochs` are complete; the epoch that is running is finished.

    Every stage that has a commit is skipped, so that a killed run goes on with the stage it was in.
    """
    started = clock()
    deadline = started + settings.loop.run_hours * 3600
    require_gpu(settings.training)
    keep = settings.store.keep_epochs
    with (
        _stop_signals(),
        open_context(settings, keep_epochs=keep) as context,
        Trainer(settings, context.store) as trainer,
    ):
        display = display or Display(context)
        for epoch in _epochs(epochs):
            if clock() >= deadline:
                break
            run_epoch(context, epoch, trainer, display)
            retire_epochs(context.store, keep)
        display.finish()
        film = _film(context, display)
        with display.work("report", "parts") as tell:
            report = write_report(context.store, settings, tell)
    found = rows(context.store)
    told = tuple(sentences(found, milestone_titles(settings.game)))
    return RunResult(found, report, context.store.url, clock() - started, told, film)


def run_epoch(context: Context, epoch: int, trainer: Trainer, display: Display) -> None:
    """All stages of an epoch, judges and reward model every EVAL_INTERVAL epochs."""
    with display.stage(epoch, Stage.ROLLOUTS) as bar:
        stages.rollouts(context, epoch, trainer, bar.training, bar.announce)
    if (epoch + 1) % context.settings.loop.eval_interval:
        return
    with display.stage(epoch, Stage.EVALUATE) as bar:
        stages.evaluate(context, epoch, bar.counting, bar.announce)
    with display.stage(epoch, Stage.REWARD_MODEL) as bar:
        stages.reward_model(context, epoch, bar.counting)
    display.epoch_done(epoch)


def _film(context: Context, display: Display) -> str | None:
    """Film the best episode of the last epoch, judged by now, unless that would take long."""
    played = committed_epochs(context.store, Stage.ROLLOUTS)
    if not played:
        return None
    with display.work("film", "pictures") as tell:
        key = film_best(context.store, context.settings, played[-1], tell, MOST_UNASKED)
    return f"{context.store.url.rstrip('/')}/{key}" if key else None


def _epochs(most: int | None) -> Iterator[int]:
    epoch = 0
    while most is None or epoch < most:
        yield epoch
        epoch += 1


@contextmanager
def _stop_signals() -> Iterator[None]:
    """SIGTERM and Ctrl-C leave through `Stopped`, so that every context manager closes what it holds.

    What travels is a KeyboardInterrupt: an event loop logs any lesser exception of a callback, and goes on.
    """

    stopping, begun = ExitStack(), False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal begun
        os.write(2, b"\nstopping, this takes a few seconds\n")  # a signal may come inside of print
        if not begun:
            begun = True
            say = partial(print, file=sys.stderr)
            stopping.enter_context(heartbeat(lambda seconds: say(f"  stopping, {seconds:.0f} s")))
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with stopping:
            yield
    except KeyboardInterrupt:
        raise Stopped(
            "stopped; the same command goes on after the last finished stage, and begins this one again"
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
