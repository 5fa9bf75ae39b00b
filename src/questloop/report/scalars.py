"""A run's curves as TensorBoard scalars, read from its commits: no process that plays writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from questloop.episodes.run import read_run
from questloop.report import table
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store
from questloop.telemetry.tensorboard import Scalar, write_events


def write_scalars(store: Store, folder: Path) -> Path:
    """Write the event file of the run into `folder`; returns its path. `BadDataError` without a run."""
    return write_events(folder, _scalars(store), read_run(store).run)


def _scalars(store: Store) -> Iterator[Scalar]:
    """Of every update what the learner reports, `play/...`, and of every epoch its row, `epoch/...`."""
    for row in table.rows(store):
        commit = read_commit(store, row.epoch, Stage.ROLLOUTS)
        assert commit is not None
        ended = commit.created.timestamp()
        curve = commit.info.get("curve") or []
        rate = row.steps_per_second or 1.0
        last = int(commit.info["step_end"])  # type: ignore[arg-type]
        for point in curve:  # type: ignore[union-attr]
            step = int(point["step"])  # type: ignore[index, call-overload, arg-type]
            when = ended - (last - step) / rate
            for name, value in point.items():  # type: ignore[union-attr]
                if name != "step" and isinstance(value, int | float):
                    yield Scalar(f"play/{name}", step, float(value), when)
        for name, value in row.to_json().items():
            if name != "epoch" and isinstance(value, int | float):
                yield Scalar(f"epoch/{name}", row.epoch, float(value), ended)
