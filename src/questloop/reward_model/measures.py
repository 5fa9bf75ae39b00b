"""What a reward model is worth: accuracy with its interval, Brier score, calibration, drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from questloop.reward_model.preferences import Preferences

RESAMPLES = 400
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

    `episode`, `fold`: i64 [S]; comparisons lie within a fold. The interval is 1.96 standard errors wide on
    either side. Comparisons share segments and segments share episodes, so the error is the larger of a
    bootstrap over episodes and that of unrelated rankings.
    """
    decided = held_out[held_out.label != 0.5]
    if not len(decided):
        return Accuracy.unknown()
    right = _ordered_right(value[decided.a] - value[decided.b], decided.label)
    error = max(
        _chance_error(decided, fold), _bootstrap_error(right, episode[decided.a], episode[decided.b], rng)
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


def _chance_error(decided: Preferences, fold: NDArray[np.int64]) -> float:
    """Standard error of the accuracy of unrelated rankings.

    Kendall's tau = 2 accuracy - 1 of n segments has the variance `2 (2n + 5) / (9 n (n - 1))` then (Kendall
    1938); folds are independent and count by their comparisons.
    """
    shares, variances = [], []
    for each in np.unique(fold[decided.a]):
        inside = decided[fold[decided.a] == each]
        n = len(np.unique([inside.a, inside.b]))
        shares.append(len(inside) / len(decided))
        variances.append(2 * (2 * n + 5) / (9 * n * (n - 1)) / 4)
    return float(np.sqrt(np.square(shares) @ np.array(variances)))


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
