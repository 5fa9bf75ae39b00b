"""The charts of the HTML report and the overview page: some training curves, judges, reward models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from questloop.report.book import RunBook
from questloop.report.curves import CURVES, boundaries, series
from questloop.report.page_data import Played, reading_in_use
from questloop.report.plots import Line, line_plot, reliability_plot
from questloop.report.words import CHARTS, Words
from questloop.storage.keys import Stage

LEARNING = ("return_per_1000_steps", "unique_rooms_per_episode", "entropy")
"""the training curves that the report and the overview show"""


def learning_curves(played: Played) -> list[tuple[str, Markup]]:
    """Titles and plots over environment steps; `played` may end with an epoch that still goes on."""
    found, starts = series(played), boundaries(played)
    shown = [
        (curve.title, found[curve.key]) for curve in CURVES if curve.key in LEARNING and curve.key in found
    ]
    return [
        (title, line_plot(title, [Line(title, each.x, each.y)], "environment steps", starts))
        for title, each in shown
    ]


def model_charts(book: RunBook) -> list[tuple[Words, Markup]]:
    """What they show, and plots over epochs; one without a point is left out."""
    learned = {epoch: book.info(epoch, Stage.REWARD_MODEL) for epoch in book.epochs(Stage.REWARD_MODEL)}
    judged = {epoch: book.info(epoch, Stage.EVALUATE) for epoch in book.epochs(Stage.EVALUATE)}
    wanted = [
        (
            "right",
            [
                _accuracy("as judges scored segments", learned, "judges"),
                _accuracy("as milestones followed", learned, "gold"),
                _accuracy("as judges scored places", learned, "cells"),
                _accuracy("before and after a milestone", learned, "trust"),
            ],
        ),
        (
            "agreement",
            [
                _series("judges agree (alpha)", judged, lambda info: info["alpha"]),
                _series("scores foresee milestones (tau)", judged, lambda info: info["tau"]["tau"]),
            ],
        ),
        (
            "walkthrough",
            [
                _along_walkthrough("rises with time", learned, "spearman"),
                _along_walkthrough("largest fall on entering a room", learned, "largest_fall"),
            ],
        ),
        (
            "drift",
            [_series("change", learned, lambda info: info["drift"])],
        ),
        (
            "weight",
            [_series("weight", book.played(), lambda info: info["shaping_weight"])],
        ),
    ]
    return [
        (CHARTS[name], line_plot(CHARTS[name].title, lines, "epoch", whole=True))
        for name, lines in wanted
        if any(y is not None for line in lines for y in line.y)
    ]


def calibration(info: Mapping[str, Any]) -> Markup:
    """A reward model's predicted against observed preferences; `info` is its commit's."""
    bins = [item for item in reading_in_use(info)["calibration"] if item["comparisons"]]
    points = [(item["predicted"], item["observed"], item["comparisons"]) for item in bins]
    return reliability_plot(CHARTS["calibration"].title, points, "how sure the model was")


def _series(label: str, infos: Mapping[int, Any], read: Callable[[Any], float | None]) -> Line:
    return Line(label, [float(epoch) for epoch in infos], [read(info) for info in infos.values()])


def _along_walkthrough(label: str, learned: Mapping[int, Any], key: str) -> Line:
    return _series(label, learned, lambda info: (info.get("walkthrough") or {}).get(key))


def _accuracy(label: str, learned: Mapping[int, Any], key: str) -> Line:
    nothing = dict.fromkeys(("value", "low", "high"))  # of a version that did not measure it
    found = [reading_in_use(info).get(key, nothing) for info in learned.values()]
    values, low, high = ([item[name] for item in found] for name in ("value", "low", "high"))
    return Line(label, [float(epoch) for epoch in learned], values, low, high)
