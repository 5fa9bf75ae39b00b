"""The summary of a judge pass, `summary.json`: what was judged and how far it can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from questloop.judges.agreement import Tau, alpha, tau
from questloop.judges.calibration import Calibration, calibrate
from questloop.judges.cells import CellSummary
from questloop.judges.scores import SegmentScores, digest
from questloop.storage.schema import SchemaVersion


class JudgeSummary(BaseModel):
    """One judge over a pass."""

    model_config = ConfigDict(frozen=True)

    model: str
    fingerprint: str
    deterministic: bool
    votes: int
    valid: int
    no_quorum: int
    """segments without a score from this judge"""
    invalid: dict[str, int]
    """invalid votes by reason"""
    mean_overall: float | None
    mean_spread: float | None
    tau: Tau
    latency_s: dict[str, float]
    """percentiles p50, p90, p99"""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    """None: the server does not report them"""
    failovers: int


class Summary(BaseModel):
    """A judge pass."""

    model_config = ConfigDict(frozen=True)

    schema_version: SchemaVersion = 1
    epoch: int
    segments: int
    """segments that were there"""
    judged: int
    """segments with a score"""
    skipped: int
    """segments not selected"""
    policy: str
    budget: int | str
    invalid: dict[str, int]
    """invalid votes by reason, all judges"""
    alpha: float | None
    tau: Tau
    """of the weighted score against known outcomes"""
    calibration: Calibration | None
    """None with too few known outcomes"""
    latency_s: dict[str, float]
    tokens: int
    cached_tokens: int | None
    cost_usd: float
    fingerprints: dict[str, str]
    missing: dict[str, int] = Field(default_factory=dict)
    """segments without a score, by criterion"""
    judges: dict[str, JudgeSummary]
    cells: CellSummary | None = None
    """what is judged of the run's cells; None of an epoch that noted none"""
    unknown: dict[str, str] = Field(default_factory=dict)
    """why a figure is not known, by its name"""
    scores_sha256: str
    """digest of what two equal passes share"""


def summarise(
    epoch: int,
    scores: Sequence[SegmentScores],
    *,
    available: int,
    budget: int | str,
    policy: str,
    outcomes: Mapping[str, bool],
    cells: CellSummary | None = None,
    usd_per_mtok: tuple[float, float],
) -> Summary:
    """Figures of a finished pass."""
    names = sorted({name for line in scores for name in line.judges})
    judges = {name: _judge(name, scores, outcomes) for name in names}
    cached = [judge.cached_tokens for judge in judges.values() if judge.cached_tokens is not None]
    prompt = sum(judge.prompt_tokens for judge in judges.values()) + (cells.prompt_tokens if cells else 0)
    completion = sum(judge.completion_tokens for judge in judges.values())
    completion += cells.completion_tokens if cells else 0
    invalid: Counter[str] = Counter()
    for judge in judges.values():
        invalid.update(judge.invalid)
    missing = Counter(name.value for line in scores for name in line.missing)
    agreement = alpha(scores)
    weighted = tau({line.segment_id: line.weighted for line in scores}, outcomes)
    calibration = calibrate(scores, outcomes)
    return Summary(
        epoch=epoch,
        segments=available,
        judged=sum(line.weighted is not None for line in scores),
        skipped=available - len(scores),
        policy=policy,
        budget=budget,
        invalid=dict(sorted(invalid.items())),
        alpha=agreement,
        tau=weighted,
        calibration=calibration,
        latency_s=_percentiles([j.latency_s for line in scores for j in line.judges.values()]),
        tokens=prompt + completion,
        cached_tokens=sum(cached) if cached else None,
        cost_usd=round((prompt * usd_per_mtok[0] + completion * usd_per_mtok[1]) / 1e6, 6),
        fingerprints={name: judge.fingerprint for name, judge in judges.items()},
        missing=dict(sorted(missing.items())),
        judges=judges,
        cells=cells,
        unknown=_unknown(agreement, weighted, calibration),
        scores_sha256=digest(scores),
    )


def _unknown(agreement: float | None, weighted: Tau, calibration: Calibration | None) -> dict[str, str]:
    found = {}
    if agreement is None:
        found["alpha"] = "no segment has the scores of two judges, or all of their scores are equal"
    if weighted.n == 0:
        found["tau"] = (
            "of no judged segment is it known what followed: "
            "none is followed by a whole window in its episode or by the game's end"
        )
    elif weighted.positive in (0, weighted.n):
        with_milestone = "each" if weighted.positive else "none"
        found["tau"] = f"of {weighted.n} known segments {with_milestone} was followed by a milestone"
    elif weighted.tau is None:
        found["tau"] = "all known segments have the same score"
    if calibration is None:
        found["brier"] = found.get("tau") or f"{weighted.n} known segments are too few to calibrate on"
    return found


def _judge(name: str, scores: Sequence[SegmentScores], outcomes: Mapping[str, bool]) -> JudgeSummary:
    answers = {line.segment_id: line.judges[name] for line in scores if name in line.judges}
    votes = [vote for answer in answers.values() for vote in answer.votes]
    first = next(iter(answers.values()))
    cached = [a.tokens.cached for a in answers.values() if a.tokens.cached is not None]
    reasons = Counter(vote.invalid.value for vote in votes if vote.invalid is not None)
    return JudgeSummary(
        model=first.model,
        fingerprint=first.fingerprint,
        deterministic=first.deterministic,
        votes=len(votes),
        valid=sum(answer.valid for answer in answers.values()),
        no_quorum=sum(not answer.quorum for answer in answers.values()),
        invalid=dict(sorted(reasons.items())),
        mean_overall=_mean([a.overall for a in answers.values() if a.overall is not None]),
        mean_spread=_mean([a.spread for a in answers.values() if a.spread is not None]),
        tau=tau({segment: answer.overall for segment, answer in answers.items()}, outcomes),
        latency_s=_percentiles([answer.latency_s for answer in answers.values()]),
        prompt_tokens=sum(answer.tokens.prompt for answer in answers.values()),
        completion_tokens=sum(answer.tokens.completion for answer in answers.values()),
        cached_tokens=sum(cached) if cached else None,
        failovers=sum(vote.failover_model is not None for vote in votes),
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 6) if values else None


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {f"p{q}": round(float(np.percentile(values, q)), 4) for q in (50, 90, 99)}
