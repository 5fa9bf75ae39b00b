"""Measures a reward model: accuracy with its interval, Brier score, calibration and drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from questloop.reward_model.preferences import Preferences

RESAMPLES = 400
DEALS = 200
BINS = 10


@dataclass(frozen=True)
class Accuracy:
    """Share of decided comparisons that are ordered right, with a 95% interval; NaN where there are none."""

    value: float
    low: float
    high: float
    comparisons: int

    @classmethod
    def unknown(cls) -> Accuracy:
        """Of no comparison at all."""
        return cls(float("nan"), float("nan"), float("nan"), 0)


@dataclass(frozen=True)
class CalibrationBin:
    """Comparisons whose predicted P(a is better) lies in one tenth: means of prediction and label."""

    predicted: float
    observed: float
    comparisons: int


def accuracy(
    value: NDArray[np.float64],
    held_out: Preferences,
    episode: NDArray[np.int64],
    fold: NDArray[np.int64],
    rng: np.random.Generator,
) -> Accuracy:
    """How often `value` f64 [S] orders the comparisons as their labels do; ties of the labels are left out.

    `episode`, `fold`: i64 [S]; comparisons lie within a fold, an episode too. The interval is 1.96 standard
    errors wide on either side. Comparisons share segments and segments share episodes, so the error is the
    larger of a bootstrap over episodes and of what the accuracy would be by chance, see `_chance_error`.
    """
    decided = held_out[held_out.label != 0.5]
    if not len(decided):
        return Accuracy.unknown()
    right = _ordered_right(value[decided.a] - value[decided.b], decided.label)
    error = max(
        _chance_error(value, decided, episode, fold, rng),
        _bootstrap_error(right, episode[decided.a], episode[decided.b], rng),
    )
    mean = float(right.mean())
    low, high = max(mean - 1.96 * error, 0.0), min(mean + 1.96 * error, 1.0)
    return Accuracy(mean, low, high, len(decided))


def by_outcome(outcome: NDArray[np.float64], fold: NDArray[np.int64]) -> Preferences:
    """Every comparison within a fold of segments whose known outcomes (NaN: unknown) differ: the truth."""
    known = np.flatnonzero(np.isfinite(outcome))
    a, b = (known[index] for index in np.triu_indices(len(known), k=1))
    differ = (outcome[a] != outcome[b]) & (fold[a] == fold[b])
    a, b = a[differ], b[differ]
    label = (outcome[a] > outcome[b]).astype(np.float32)
    return Preferences(a, b, label, np.ones(len(a), np.float32))


def brier(predicted: NDArray[np.float64], label: NDArray[np.float32]) -> float:
    """Mean squared error of predicted P(a is better) against the preferred side, a tie being 0.5."""
    if not len(label):
        return float("nan")
    return float(np.mean((predicted - _preferred(label)) ** 2))


def calibration(predicted: NDArray[np.float64], label: NDArray[np.float32]) -> list[CalibrationBin]:
    """Tenths of the predictions that hold any comparison."""
    tenth = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    preferred = _preferred(label)
    return [
        CalibrationBin(float(predicted[inside].mean()), float(preferred[inside].mean()), int(inside.sum()))
        for inside in (tenth == index for index in range(BINS))
        if inside.any()
    ]


def drift(before: NDArray[np.float32], after: NDArray[np.float32]) -> tuple[float, float]:
    """Mean absolute change and Spearman's rank correlation of potentials of the same observations."""
    if before.std() == 0 or after.std() == 0:
        return float(np.abs(after - before).mean()), float("nan")
    return float(np.abs(after - before).mean()), float(spearmanr(before, after).statistic)


def _preferred(label: NDArray[np.float32]) -> NDArray[np.float64]:
    return (np.sign(label - 0.5) + 1) / 2


def _ordered_right(difference: NDArray[np.float64], label: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 right, 0 wrong, 0.5 where the values do not differ."""
    return (np.sign(difference) * np.sign(label - 0.5) + 1) / 2


def _chance_error(
    value: NDArray[np.float64],
    decided: Preferences,
    episode: NDArray[np.int64],
    fold: NDArray[np.int64],
    rng: np.random.Generator,
) -> float:
    """Deviation from one half of the accuracy of the same values, dealt anew to the episodes of each fold.

    A permutation test (Good 2005, "Permutation, parametric and bootstrap tests of hypotheses") that moves
    whole episodes. Where one segment stands out and all others are equal, every comparison has that segment:
    their number says nothing, and this error is that of one draw.
    """
    deal = _Deal(episode, fold)
    values = (value[deal(rng)] for _ in range(DEALS))
    chance = [_ordered_right(v[decided.a] - v[decided.b], decided.label).mean() - 0.5 for v in values]
    return float(np.sqrt(np.mean(np.square(chance))))


class _Deal:
    """Gives every episode the segments of an episode of its fold, in order, from the first again where it has
    more of them."""

    def __init__(self, episode: NDArray[np.int64], fold: NDArray[np.int64]) -> None:
        _, self._of, count = np.unique(episode, return_inverse=True, return_counts=True)
        self._order = np.argsort(self._of, kind="stable")
        self._first = np.cumsum(count) - count
        self._count = count
        self._place = np.empty(len(episode), np.int64)
        self._place[self._order] = np.arange(len(episode)) - np.repeat(self._first, count)
        self._fold = fold[self._order][self._first]

    def __call__(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Index i64 [S] of the segment whose value each segment is given."""
        given = np.empty(len(self._fold), np.int64)
        for each in np.unique(self._fold):
            inside = np.flatnonzero(self._fold == each)
            given[inside] = rng.permutation(inside)
        other = given[self._of]
        index: NDArray[np.int64] = self._order[self._first[other] + self._place % self._count[other]]
        return index


def _bootstrap_error(
    right: NDArray[np.float64],
    episode_a: NDArray[np.int64],
    episode_b: NDArray[np.int64],
    rng: np.random.Generator,
) -> float:
    """Standard error of the mean when whole episodes are drawn again."""
    episodes, index = np.unique([episode_a, episode_b], return_inverse=True)
    n = len(episodes)
    sums, counts = np.zeros((n, n)), np.zeros((n, n))
    a, b = index.reshape(2, -1)
    np.add.at(sums, (a, b), right)
    np.add.at(counts, (a, b), 1)
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
    total = np.einsum("ri,ij,rj->r", drawn, counts, drawn)
    hits = np.einsum("ri,ij,rj->r", drawn, sums, drawn)
    return float(np.std(hits[total > 0] / total[total > 0]))
