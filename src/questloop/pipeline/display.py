"""Shows a running loop in the terminal, and writes `progress.json` for other programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from questloop.episodes.plain import counted
from questloop.pipeline.context import Context
from questloop.report.table import FIGURES, Row, cells, rows
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.telemetry import logs
from questloop.telemetry.progress import ProgressFile, Tell, stage_progress
from questloop.training.epoch_plan import EpochProgress

_GAP = 2  # characters between two columns of the closing table
_TITLES = {Stage.ROLLOUTS: "train", Stage.EVALUATE: "judge", Stage.REWARD_MODEL: "reward model"}
_UNITS = {Stage.ROLLOUTS: "steps", Stage.EVALUATE: "judgements", Stage.REWARD_MODEL: "updates"}


class Display:
    """Says on standard error what runs, and keeps `progress.json` up to date."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._console = Console(stderr=True, highlight=False)
        self._file = ProgressFile(lambda data: context.store.put(keys.progress(), data), context.run.run)

    @contextmanager
    def stage(self, epoch: int, stage: Stage) -> Iterator[StageDisplay]:
        """Show a stage while it runs; what stops or fails it stands in `progress.json`.

        One that was committed before is shown only where it takes long after all. Lines logged inside carry
        epoch and stage.
        """
        title = f"epoch {epoch} {_TITLES[stage]}"
        new = read_commit(self._context.store, epoch, stage) is None
        if new:
            self._begin(title)
        try:
            with (
                logs.context(epoch=epoch, stage=stage.value),
                stage_progress(title, _UNITS[stage], self._console, at_once=new) as tell,
            ):
                yield StageDisplay(self, epoch, stage, tell)
        except KeyboardInterrupt:
            self._file.stop()
            raise
        except Exception as error:
            self._file.error(f"{title}: {error}")
            raise

    @contextmanager
    def work(self, title: str, unit: str) -> Iterator[Tell]:
        """Show what belongs to no stage while it runs."""
        self._begin(title)
        with stage_progress(title, unit, self._console) as tell:
            yield tell

    def epoch_done(self, epoch: int) -> None:
        """Take the epoch's row into `progress.json`."""
        self._file.finish_epoch(
            next(row for row in rows(self._context.store) if row.epoch == epoch).to_json()
        )

    def finish(self) -> None:
        """The run is over."""
        self._file.finish()

    def say(self, text: str) -> None:
        """A line for a person."""
        self._console.print(text)

    def _begin(self, title: str) -> None:
        if not self._console.is_terminal:  # where there is one, the bar bears the title
            self.say(title)

    def update(
        self,
        epoch: int,
        stage: Stage,
        step: int,
        total: int,
        rate: float,
        training: dict[str, Any] | None = None,
    ) -> None:
        """Tell `progress.json` where a stage is."""
        self._file.update(epoch, stage.value, step, total, rate, training)


class StageDisplay:
    """The callbacks of one stage."""

    def __init__(self, display: Display, epoch: int, stage: Stage, tell: Tell) -> None:
        self._display, self._epoch, self._stage, self._tell = display, epoch, stage, tell
        self._began = time.monotonic()

    def training(self, at: EpochProgress) -> None:
        """Told by the trainer after every update."""
        self._tell(at.step - at.step_start, at.step_end - at.step_start)
        self._display.update(
            self._epoch, self._stage, at.step, at.step_end, at.steps_per_second, _training(at)
        )

    def counting(self, done: int, total: int) -> None:
        """Told by the judges and the reward model."""
        self._tell(done, total)
        rate = done / max(1e-9, time.monotonic() - self._began)
        self._display.update(self._epoch, self._stage, done, total, rate)

    def announce(self, text: str) -> None:
        """A line above the bar."""
        self._display.say(f"  {text}")


def _training(at: EpochProgress) -> dict[str, Any]:
    return {
        "step_start": at.step_start,
        "episodes": at.episodes,
        "return_per_1000_steps": at.return_per_1000_steps,
        "unique_rooms": at.unique_rooms,
        "places": at.places,
        "room_visits": at.room_visits,
        "curve": [asdict(point) for point in at.curve],
        "curriculum": at.curriculum,
    }


def print_table(rows: list[Row], console: Console) -> None:
    """The closing table: a line per figure, a column per epoch, the first and as many of the last as fit."""
    names, *figures = ([figure.title for figure in FIGURES.values()], *map(cells, rows))
    room = console.width - max(map(len, names))
    shown = _fitting([max(map(len, column)) + _GAP for column in figures], room)
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, _GAP), show_header=False)
    for _ in (names, *shown):
        table.add_column(justify="right", no_wrap=True)
    table.columns[0].justify = "left"
    for line, cell in enumerate(zip(names, *(figures[place] for place in shown), strict=True)):
        table.add_row(*cell, style=None if line else "bold")
    console.print(table)
    left_out = len(figures) - len(shown)
    if left_out:
        console.print(
            f"{counted(left_out, 'epoch')} after the first not shown; --json prints all.", style="dim"
        )


def _fitting(widths: list[int], room: int) -> list[int]:
    """Which columns fit into `room` characters: the first, and as many of the last as there is room for."""
    shown: list[int] = []
    for place in (0, *range(len(widths) - 1, 0, -1))[: len(widths)]:
        room -= widths[place]
        if room < 0:
            break
        shown.append(place)
    return sorted(shown)
