"""The HTML report of a run: one self-contained file, made from the store alone."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined

from questloop.episodes.retention import retired_epochs
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.pipeline import table, views
from questloop.pipeline.run import read_run
from questloop.settings import Settings
from questloop.storage.commit import committed_epochs, read_commit
from questloop.storage.keys import MODELS, Stage
from questloop.storage.store import Store

REPORT_KEY = f"{MODELS}/pipeline/report.html"


def write_report(store: Store, settings: Settings) -> str:
    """Write the report into the store; returns where it is, a path for a folder."""
    store.put(REPORT_KEY, render(store, settings).encode())
    return f"{store.url.rstrip('/')}/{REPORT_KEY}"


def render(store: Store, settings: Settings) -> str:
    """The page. Raises `BadDataError` where the store holds no run."""
    run = read_run(store)
    rows = table.rows(store)
    epochs = [row.epoch for row in rows]
    played = {epoch: _info(store, epoch, Stage.ROLLOUTS) for epoch in epochs}
    segments = views.Segments(store)
    gone = retired_epochs(store)
    learned = [number for number in committed_epochs(store, Stage.REWARD_MODEL) if number in epochs]
    newest = _info(store, learned[-1], Stage.REWARD_MODEL) if learned else None
    return _template().render(
        run=run,
        steps=f"{sum(row.steps for row in rows):,}",
        parts=_parts(settings),
        columns=list(table.COLUMNS.values()),
        rows=[table.cells(row) for row in rows],
        legend=table.LEGEND,
        charts=views.curves(played),
        maps=views.room_maps(played, segments, gone, profile_for(Rom.load(settings.game.rom_path)).room_top),
        milestone_epochs=epochs,
        milestones=views.milestones(played),
        planner=views.planner(played),
        segments=segments.best_and_worst(set(committed_epochs(store, Stage.EVALUATE)) - gone),
        calibration=views.calibration(newest) if newest else None,
        reward_model=views.reward_model(newest) if newest else [],
    )


def _parts(settings: Settings) -> list[tuple[str, bool]]:
    on = settings.exploration
    return [
        ("RND curiosity", on.rnd_coef > 0),
        ("AI-feedback shaping", on.shaping_coef > 0),
        ("archive restarts", on.archive_fraction > 0),
        ("AWR", on.awr_top_k > 0),
        ("SIL", on.sil_coef > 0),
        ("curriculum", on.curriculum),
        ("planner", on.planner),
        ("hints", on.hint_interval > 0),
    ]


def _info(store: Store, epoch: int, stage: Stage) -> dict[str, Any]:
    commit = read_commit(store, epoch, stage)
    assert commit is not None
    return dict(commit.info)


def _template():  # type: ignore[no-untyped-def]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    text = resources.files("questloop.pipeline").joinpath("templates", "report.html").read_text("utf-8")
    return environment.from_string(text)
