"""Every training curve of a run, for the dashboard and as CSV: what is drawn, and over which steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from questloop.report.page_data import Played

MOST_POINTS = 600
"""of a curve on a page; more are drawn as the means of neighbours, and a CSV has all"""

CHUNK = 1000
"""lines of a CSV that are handed over at once"""


@dataclass(frozen=True)
class Curve:
    """What is measured of every update, and of an epoch where a release before kept no more."""

    key: str
    title: str
    group: str
    of_epoch: str = ""
    """the field of an epoch's report that stands in, `losses.kl` for one inside; empty: none"""
    counts: bool = False
    """drawn in steps and never smoothed"""


CURVES = (
    Curve("return_per_1000_steps", "Reward per 1,000 steps", "Play", "return_per_1000_steps"),
    Curve("episode_return", "Return of an episode", "Play", "return_mean"),
    Curve("episode_length", "Steps of an episode", "Play", "episode_length_mean"),
    Curve("unique_rooms_per_episode", "Rooms entered by an episode", "Play", "unique_rooms_per_episode"),
    Curve("milestones_per_episode", "Milestones reached by an episode", "Play"),
    Curve("milestones", "Different milestones reached so far", "Play", counts=True),
    Curve("policy_loss", "Loss of the policy", "Learning", "losses.policy_loss"),
    Curve("vf_loss", "Loss of the critic", "Learning", "losses.vf_loss"),
    Curve("curiosity_loss", "Loss of curiosity's predictor", "Learning", "losses.curiosity_loss"),
    Curve("entropy", "Entropy of the policy, nats", "Learning", "losses.entropy"),
    Curve("kl", "KL divergence of an update, nats", "Learning", "losses.kl"),
    Curve("clip_fraction", "Share of steps that were clipped", "Learning", "losses.clip_fraction"),
    Curve("explained_variance", "Explained variance of the critic", "Learning", "losses.explained_variance"),
    Curve("curiosity_mean", "Curiosity's reward per step", "Reward and speed", "curiosity_mean"),
    Curve("shaping_mean", "Shaping's reward per step", "Reward and speed", "shaping_mean"),
    Curve("steps_per_second", "Steps per second", "Reward and speed", "steps_per_second"),
)


@dataclass(frozen=True)
class Series:
    """A curve's points over the steps of the run; `each` says of what a point is."""

    x: list[int]
    y: list[float]
    each: str = "update"  # or epoch

    def within(self, low: float, high: float, most: int = MOST_POINTS) -> Series:
        """The points from step `low` to `high`, at most `most` of them, each the mean of its neighbours."""
        kept = [(x, y) for x, y in zip(self.x, self.y, strict=True) if low <= x <= high]
        size = max(1, math.ceil(len(kept) / most))
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        means = [sum(y for _, y in chunk) / len(chunk) for chunk in chunks]
        return Series([chunk[-1][0] for chunk in chunks], means, self.each)


def series(played: Played) -> dict[str, Series]:
    """Every curve that the reports of these epochs hold, by its key, in the order of `CURVES`."""
    points = [point for info in played.values() for point in info["curve"]]
    found = {curve.key: _series(curve, played, points) for curve in CURVES}
    found["milestones"] = _milestones(played)
    return {key: each for key, each in found.items() if each.x}


def boundaries(played: Played) -> list[int]:
    """The steps at which epochs begin, but for the first."""
    return [int(info["step_start"]) for info in played.values()][1:]


def as_csv(played: Played) -> Iterator[str]:
    """A line an update, a column a curve; what an update has no figure of is empty.

    Curves that a release before kept by the epoch stand in the line of the epoch's last update.
    """
    found = series(played)
    steps = sorted({x for each in found.values() for x in each.x})
    values = [dict(zip(each.x, each.y, strict=True)) for each in found.values()]
    yield ",".join(["step", *found]) + "\n"
    for start in range(0, len(steps), CHUNK):
        rows = ([str(x), *(_cell(each.get(x)) for each in values)] for x in steps[start : start + CHUNK])
        yield "".join(",".join(row) + "\n" for row in rows)


def _series(curve: Curve, played: Played, points: list[Mapping[str, Any]]) -> Series:
    given = [(int(point["step"]), point[curve.key]) for point in points if point.get(curve.key) is not None]
    if given:
        return Series([x for x, _ in given], [float(y) for _, y in given])
    means = [
        (int(info["step_end"]), value)
        for info in played.values()
        if curve.of_epoch and "step_end" in info and (value := _field(info, curve.of_epoch)) is not None
    ]
    return Series([x for x, _ in means], [float(y) for _, y in means], "epoch")


def _milestones(played: Played) -> Series:
    """How many different ones an episode of the run has reached by each step: a point where one is new."""
    first: dict[str, int] = {}
    for info in played.values():
        for name, step in (info.get("milestone_steps") or {}).items():
            first[name] = min(step, first.get(name, step))
    steps = sorted(first.values())
    counts = dict(zip(steps, range(1, len(steps) + 1), strict=True))  # the last of equal steps counts
    starts = [int(info["step_start"]) for info in played.values()][:1]
    ends = [int(info["step_end"]) for info in played.values() if "step_end" in info][-1:]
    if not counts or not starts:
        return Series([], [])
    places = {start: 0 for start in starts if start < steps[0]} | counts
    places |= {end: len(steps) for end in ends if end > steps[-1]}
    return Series(list(places), [float(count) for count in places.values()])


def _field(info: Mapping[str, Any], path: str) -> float | None:
    name, _, inner = path.partition(".")
    value = info.get(name)
    return (value or {}).get(inner) if inner else value


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
