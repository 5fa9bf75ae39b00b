"""What a person sees of a running loop, and `progress.json` for everyone else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.table import Table

from questloop.pipeline.context import Context
from questloop.pipeline.table import COLUMNS, LEGEND, Row, cells, rows
from questloop.storage import keys
from questloop.storage.keys import Stage
from questloop.training.plan import EpochProgress

PROGRESS_EVERY_S = 2.0
_TITLES = {Stage.ROLLOUTS: "train", Stage.EVALUATE: "judge", Stage.REWARD_MODEL: "reward model"}


class Bar:
    """One stage: a bar on a terminal, plain lines elsewhere, and the progress document."""

    def __init__(self, display: Display, epoch: int, stage: Stage, bars: Progress, task: TaskID) -> None:
        self._display, self._epoch, self._stage = display, epoch, stage
        self._bars, self._task = bars, task
        self._started = time.monotonic()

    def training(self, at: EpochProgress) -> None:
        """Told by the trainer after every update."""
        speed = f"{at.steps_per_second:,.0f} steps/s"
        text = f"return/1k {at.return_per_1000_steps:.2f}, rooms {at.unique_rooms}, {speed}"
        done, total = at.step - at.step_start, at.step_end - at.step_start
        self._show(done, total, text, at.steps_per_second, at.step)

    def counting(self, done: int, total: int) -> None:
        """Told by the judges and the reward model."""
        self._show(done, total, "", done / max(1e-9, time.monotonic() - self._started), None)

    def announce(self, text: str) -> None:
        """A line above the bar."""
        self._display.console.print(f"  {text}", highlight=False)

    def _show(self, done: int, total: int, text: str, rate: float, step: int | None) -> None:
        self._bars.update(self._task, completed=done, total=total, text=text)
        eta_s = (total - done) / rate if rate > 0 else None
        self._display.write_progress(self._epoch, self._stage, done, total, rate, eta_s, step)


class Display:
    """Bars, the closing table and `progress.json` of a run. `quiet` prints nothing."""

    def __init__(self, context: Context, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self._context = context
        self._started = datetime.now(UTC)
        self._written = 0.0
        self._table: dict[str, Any] | None = None

    @contextmanager
    def stage(self, epoch: int, stage: Stage) -> Iterator[Bar]:
        """Show a stage while it runs."""
        title = f"epoch {epoch} {_TITLES[stage]}"
        if not self.console.is_terminal:
            self.console.print(f"{title} ...", highlight=False)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeLeft(),
            TextColumn("{task.fields[text]}"),
        )
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as bars:
            task = bars.add_task(title, total=None, text="")
            yield Bar(self, epoch, stage, bars, task)

    def epoch_done(self, epoch: int) -> None:
        """Take the epoch's row into the progress document."""
        self._table = next(row for row in rows(self._context.store) if row.epoch == epoch).to_json()
        self._written = 0.0

    def finished(self) -> None:
        """Leave a progress document that says so."""
        self._put({"stage": "finished", "eta_s": 0.0})

    def write_progress(
        self,
        epoch: int,
        stage: Stage,
        done: int,
        total: int,
        rate: float,
        eta_s: float | None,
        step: int | None,
    ) -> None:
        """Write `progress.json`, at most every two seconds."""
        if time.monotonic() - self._written < PROGRESS_EVERY_S and done < total:
            return
        self._written = time.monotonic()
        self._put(
            {
                "epoch": epoch,
                "stage": stage.value,
                "step": done if step is None else step,
                "steps_total": total,
                "rate": round(rate, 2),
                "eta_s": None if eta_s is None else round(eta_s, 1),
            }
        )

    def _put(self, fields: dict[str, Any]) -> None:
        document = {
            "schema_version": 1,
            "run": self._context.run.run,
            **fields,
            "started": self._started.isoformat(),
            "updated": datetime.now(UTC).isoformat(),
            "latest": self._table,
            "errors": [],
        }
        self._context.store.put(keys.progress(), json.dumps(document, allow_nan=False).encode() + b"\n")


def print_table(rows: list[Row], console: Console) -> None:
    """The closing table and what its columns mean."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    console.print(LEGEND, style="dim", highlight=False)
