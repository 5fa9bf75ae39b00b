"""Measures how far judges agree with one another, and with what happened next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from questloop.judges.scores import SegmentScores


class Tau(BaseModel):
    """Kendall's tau-b between a score and the known outcome."""

    model_config = ConfigDict(frozen=True)

    tau: float | None
    """-1 to 1; None where one side does not vary"""
    p_value: float | None
    n: int
    """segments with a score and a known outcome"""
    positive: int
    """of these, how many were followed by a milestone"""


def alpha(scores: Sequence[SegmentScores]) -> float | None:
    """Krippendorff's alpha of the judges' `overall`, interval level, missing values allowed.

    1 is full agreement, 0 what chance gives. None where fewer than two judges share a segment or nothing
    varies.
    """
    names = sorted({name for line in scores for name in line.judges})
    table = np.array([[_overall(line, name) for line in scores] for name in names], dtype=float)
    return krippendorff_alpha(table)


def krippendorff_alpha(table: NDArray[np.float64]) -> float | None:
    """Krippendorff's alpha (2011) of `table` f64 [judges, segments], NaN where one has no score.

    With the interval metric both disagreements are variances, so neither the values nor the segments need be
    paired: the package `krippendorff` takes memory by the square of the number of different values.
    """
    given = (~np.isnan(table)).sum(axis=0)
    paired = table[:, given >= 2]
    if not paired.size or np.unique(paired[~np.isnan(paired)]).size < 2:
        return None
    count = given[given >= 2]
    total = count.sum()
    within = (count * np.nanvar(paired, axis=0) * count / (count - 1)).sum() / total
    overall = np.nanvar(paired) * total / (total - 1)
    return round(float(1 - within / overall), 6)


def tau(values: Mapping[str, float | None], outcomes: Mapping[str, bool]) -> Tau:
    """Kendall's tau-b of `values` by segment against `outcomes` by segment; both may lack segments."""
    known = [segment for segment, value in values.items() if value is not None and segment in outcomes]
    statistic, p_value = _kendall(values, outcomes)
    positive = sum(outcomes[segment] for segment in known)
    return Tau(tau=statistic, p_value=p_value, n=len(known), positive=positive)


def rank_correlation(values: Mapping[str, float | None], others: Mapping[str, float]) -> float | None:
    """Kendall's tau-b of two scores by segment; None where one side does not vary."""
    return _kendall(values, others)[0]


def _kendall(
    values: Mapping[str, float | None], others: Mapping[str, float]
) -> tuple[float | None, float | None]:
    """Tau-b and its p-value."""
    from scipy.stats import kendalltau

    both = [key for key in sorted(values) if values[key] is not None and key in others]
    x, y = [values[key] for key in both], [float(others[key]) for key in both]
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None, None
    result = kendalltau(x, y, variant="b")
    return _finite(result.statistic), _finite(result.pvalue)


def _overall(line: SegmentScores, name: str) -> float:
    judge = line.judges.get(name)
    return float("nan") if judge is None or judge.overall is None else judge.overall


def _finite(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
