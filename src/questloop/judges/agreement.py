"""How far judges agree with one another, and with what happened next."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
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
    import krippendorff

    names = sorted({name for line in scores for name in line.judges})
    table = np.array([[_overall(line, name) for line in scores] for name in names], dtype=float)
    paired = table[:, (~np.isnan(table)).sum(axis=0) >= 2] if table.size else table
    if not paired.size or np.unique(paired[~np.isnan(paired)]).size < 2:
        return None
    return round(float(krippendorff.alpha(reliability_data=paired, level_of_measurement="interval")), 6)


def tau(values: Mapping[str, float | None], outcomes: Mapping[str, bool]) -> Tau:
    """Kendall's tau-b of `values` by segment against `outcomes` by segment; both may lack segments."""
    from scipy.stats import kendalltau

    pairs = [
        (value, outcomes[segment])
        for segment, value in sorted(values.items())
        if value is not None and segment in outcomes
    ]
    x, y = [value for value, _ in pairs], [int(outcome) for _, outcome in pairs]
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Tau(tau=None, p_value=None, n=len(pairs), positive=sum(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = kendalltau(x, y, variant="b")
    return Tau(tau=_finite(result.statistic), p_value=_finite(result.pvalue), n=len(pairs), positive=sum(y))


def _overall(line: SegmentScores, name: str) -> float:
    judge = line.judges.get(name)
    return float("nan") if judge is None or judge.overall is None else judge.overall


def _finite(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
