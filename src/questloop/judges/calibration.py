"""Turns scores into probabilities, measured on episodes that the calibration did not see.

The curves themselves are not kept. One that rises leaves the order of scores as it is, and order is all that
preferences take from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from questloop.judges.scores import SegmentScores

FOLDS = 5
MIN_SEGMENTS = 20
MIN_EPISODES = 2
BINS = 10

Floats = NDArray[np.float64]


class Calibrated(BaseModel):
    """How well a score predicts, raw and through an isotonic curve of other episodes."""

    model_config = ConfigDict(frozen=True)

    n: int
    brier_raw: float
    """of the score taken as a probability of a milestone within the next three segments"""
    brier: float
    """of the calibrated score on held-out episodes"""
    brier_base_rate: float
    """of always answering the fitted episodes' base rate: what a useless judge gets"""
    ece_raw: float
    ece: float
    """expected calibration error on held-out episodes, 10 equal-width bins"""


class Calibration(BaseModel):
    """Figures of the weighted score, and of each judge's criteria and `overall`."""

    model_config = ConfigDict(frozen=True)

    weighted: Calibrated
    judges: dict[str, dict[str, Calibrated]]
    """by judge, then by criterion or `overall`; absent where too few are known"""


def calibrate(scores: Sequence[SegmentScores], outcomes: Mapping[str, bool]) -> Calibration | None:
    """Figures where enough outcomes are known; None where they are not for the weighted score."""
    weighted = _calibrated([(line, line.weighted) for line in scores], outcomes)
    if weighted is None:
        return None
    judges: dict[str, dict[str, Calibrated]] = {}
    for name in sorted({name for line in scores for name in line.judges}):
        answers = [(line, line.judges[name]) for line in scores if name in line.judges]
        fields: dict[str, list[tuple[SegmentScores, float | None]]] = {
            "overall": [(line, answer.overall) for line, answer in answers]
        }
        for criterion in answers[0][1].scores:
            fields[criterion.value] = [(line, answer.scores[criterion]) for line, answer in answers]
        figures = {field: _calibrated(pairs, outcomes) for field, pairs in fields.items()}
        judges[name] = {field: figure for field, figure in figures.items() if figure is not None}
    return Calibration(weighted=weighted, judges=judges)


def brier(probabilities: Floats, outcomes: Floats) -> float:
    """Mean squared error of probabilities (Brier 1950).

    >>> brier(np.array([1.0, 0.5]), np.array([1.0, 0.0]))
    0.125
    """
    return float(np.mean((probabilities - outcomes) ** 2))


def expected_calibration_error(probabilities: Floats, outcomes: Floats, bins: int = BINS) -> float:
    """Mean distance of confidence and frequency over equal-width bins, weighted by size (Naeini et al. 2015).

    >>> expected_calibration_error(np.array([0.8, 0.8]), np.array([1.0, 0.0])).__round__(6)
    0.3
    """
    place = np.minimum((probabilities * bins).astype(int), bins - 1)
    error = 0.0
    for number in np.unique(place):
        inside = place == number
        error += inside.mean() * abs(probabilities[inside].mean() - outcomes[inside].mean())
    return float(error)


def _calibrated(
    pairs: Sequence[tuple[SegmentScores, float | None]], outcomes: Mapping[str, bool]
) -> Calibrated | None:
    known = [(line, score) for line, score in pairs if score is not None and line.segment_id in outcomes]
    groups = np.array([line.episode_id for line, _ in known])
    x = np.array([score for _, score in known], dtype=np.float64)
    y = np.array([outcomes[line.segment_id] for line, _ in known], dtype=np.float64)
    if len(x) < MIN_SEGMENTS or len(set(groups)) < MIN_EPISODES or len(set(y)) < 2:
        return None
    held_out, base_rate = _cross_fit(x, y, groups)
    return Calibrated(
        n=len(x),
        brier_raw=round(brier(x, y), 6),
        brier=round(brier(held_out, y), 6),
        brier_base_rate=round(brier(base_rate, y), 6),
        ece_raw=round(expected_calibration_error(x, y), 6),
        ece=round(expected_calibration_error(held_out, y), 6),
    )


def _cross_fit(x: Floats, y: Floats, groups: NDArray[np.str_]) -> tuple[Floats, Floats]:
    """Predictions of each segment by a curve and by a base rate that never saw its episode."""
    from sklearn.isotonic import IsotonicRegression
    from sklearn.model_selection import GroupKFold

    held_out, base_rate = np.empty_like(x), np.empty_like(x)
    folds = GroupKFold(n_splits=min(FOLDS, len(set(groups))))
    for fitted, tested in folds.split(x, y, groups):
        curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(x[fitted], y[fitted])
        held_out[tested] = curve.predict(x[tested])
        base_rate[tested] = y[fitted].mean()
    return held_out, base_rate
