"""Writes a run's curves as a TensorBoard event file, from its commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from questloop.episodes.run import read_run
from questloop.local_files import written
from questloop.report import table
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store

Scalar = tuple[str, float, int, float]
"""tag, value, step, and when it was measured in seconds since 1970"""


def write_scalars(store: Store, folder: Path) -> Path:
    """Write the run's event file into `folder`, in place of an earlier one; returns its path.

    Raises `BadDataError` where the store holds no run.
    """
    from tensorboardX import SummaryWriter  # a part of Ray's own installation

    path = folder / f"events.out.tfevents.{read_run(store).run}"
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=folder) as part:
            with SummaryWriter(part) as writer:
                for scalar in _scalars(store):
                    writer.add_scalar(*scalar)
            (events,) = Path(part).iterdir()
            events.replace(path)
    return path


def _scalars(store: Store) -> Iterator[Scalar]:
    """What the learner reports of each update as `play/...`, and the row of each epoch as `epoch/...`."""
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
                    yield f"play/{name}", float(value), step, when
        for name, value in row.to_json().items():
            if name != "epoch" and isinstance(value, int | float):
                yield f"epoch/{name}", float(value), row.epoch, ended
