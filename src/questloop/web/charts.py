"""Curves of judges and reward models over the epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from questloop.pipeline.pictures import Series, line_chart
from questloop.storage.keys import Stage
from questloop.web.book import RunBook


def model_charts(book: RunBook) -> list[tuple[str, Markup]]:
    """Titles and inline SVGs; a chart without a point is left out."""
    learned = {epoch: book.info(epoch, Stage.REWARD_MODEL) for epoch in book.epochs(Stage.REWARD_MODEL)}
    judged = {epoch: book.info(epoch, Stage.EVALUATE) for epoch in book.epochs(Stage.EVALUATE)}
    played = book.played()
    wanted = [
        (
            "Reward model on held-out pairs",
            "share ordered rightly",
            [
                _series("as the judges do", learned, lambda info: _reading(info)["judges"]["value"]),
                _series("as what followed", learned, lambda info: _reading(info)["gold"]["value"]),
            ],
        ),
        (
            "Judges",
            "agreement",
            [
                _series("alpha between judges", judged, lambda info: info["alpha"]),
                _series("tau with what followed", judged, lambda info: info["tau"]["tau"]),
            ],
        ),
        (
            "What drifts",
            "drift; weight of shaping",
            [
                _series("reward model since the epoch before", learned, lambda info: info["drift"]),
                _series("weight of shaping", played, lambda info: info["shaping_weight"]),
            ],
        ),
    ]
    return [
        (title, Markup(line_chart([line for line in lines if line.x], label, xlabel="epoch")))
        for title, label, lines in wanted
        if any(line.x for line in lines)
    ]


def _series(label: str, infos: dict[int, dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> Series:
    points = [(epoch, read(info)) for epoch, info in infos.items()]
    known = [(epoch, value) for epoch, value in points if value is not None]
    return Series(label, [epoch for epoch, _ in known], [value for _, value in known])


def _reading(info: dict[str, Any]) -> dict[str, Any]:
    reading: dict[str, Any] = info["readings"][info["reading"]]
    return reading
