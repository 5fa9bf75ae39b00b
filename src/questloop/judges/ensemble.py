"""Combines what the three judges said of a segment into its line of `scores.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping

from questloop.judges.rubric import WEIGHTS, Criterion
from questloop.judges.scores import JudgeScores, SegmentScores


def combine(segment_id: str, episode_id: str, epoch: int, judges: Mapping[str, JudgeScores]) -> SegmentScores:
    """Criteria from the judges that own them, their weighted mean, and how far the judges agree."""
    criteria: dict[Criterion, float | None] = dict.fromkeys(Criterion)
    for scores in judges.values():
        criteria |= scores.scores
    overall = [scores.overall for scores in judges.values() if scores.overall is not None]
    return SegmentScores(
        segment_id=segment_id,
        episode_id=episode_id,
        epoch=epoch,
        judges=dict(judges),
        criteria=criteria,
        weighted=weighted_mean(criteria),
        missing=tuple(name for name in Criterion if criteria[name] is None),
        agreement=round(1.0 - (max(overall) - min(overall)), 6) if len(overall) > 1 else None,
    )


def weighted_mean(criteria: Mapping[Criterion, float | None]) -> float | None:
    """Mean by the weights 0.4, 0.2, 0.2, 0.1, 0.1, renormalised over the criteria that have a score.

    >>> weighted_mean({Criterion.PROGRESS: 1.0, Criterion.DIALOG: None, Criterion.NOVELTY: 0.5})
    0.9
    """
    given = [(WEIGHTS[name], score) for name, score in criteria.items() if score is not None]
    if not given:
        return None
    return round(sum(weight * score for weight, score in given) / sum(weight for weight, _ in given), 6)
