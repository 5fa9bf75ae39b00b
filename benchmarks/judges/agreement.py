"""How often a judge is right on held-out pairs with known outcomes, with an interval over episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000


@dataclass(frozen=True)
class Agreement:
    """Share of pairs where the judge prefers the segment that went further, with a 95 % interval."""

    accuracy: float
    low: float
    high: float


def correct(preferences: Floats) -> Floats:
    """1 where the judge prefers the first of two, which is the one that went further; a tie is half.

    >>> correct(np.array([0.9, 0.2, 0.5])).tolist()
    [1.0, 0.0, 0.5]
    """
    return np.where(preferences == 0.5, 0.5, (preferences > 0.5).astype(float))


def agreement(
    hits: Sequence[Floats], episodes: Sequence[Sequence[tuple[str, str]]], seed: int = 0
) -> Agreement:
    """Mean accuracy over runs (seeds) and a percentile interval, resampling episodes within each run.

    `hits[r]` is f64[P_r] and `episodes[r]` names the two episodes of each pair; segments of one episode are
    no independent evidence, so a pair counts as often as its episodes were drawn (a cluster bootstrap).
    """
    rng = np.random.default_rng(seed)
    resampled = np.mean(
        [_resample(run, pairs, rng) for run, pairs in zip(hits, episodes, strict=True)], axis=0
    )
    low, high = np.nanquantile(resampled, (0.025, 0.975))
    accuracy = float(np.mean([run.mean() for run in hits]))
    return Agreement(round(accuracy, 4), round(float(low), 4), round(float(high), 4))


def _resample(hits: Floats, pairs: Sequence[tuple[str, str]], rng: np.random.Generator) -> Floats:
    names = sorted({name for pair in pairs for name in pair})
    index = {name: number for number, name in enumerate(names)}
    first = np.array([index[a] for a, _ in pairs])
    second = np.array([index[b] for _, b in pairs])
    accuracies = np.empty(RESAMPLES)
    for number in range(RESAMPLES):
        drawn = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        weights = np.where(first == second, drawn[first], drawn[first] * drawn[second])
        total = weights.sum()
        accuracies[number] = (weights * hits).sum() / total if total else np.nan
    return accuracies
