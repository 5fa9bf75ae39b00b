"""A person's scores of segments, against which judges can be measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from questloop.episodes.jsonl import from_jsonl, to_jsonl
from questloop.judges.agreement import rank_correlation
from questloop.judges.scores import Score, SegmentScores
from questloop.judges.selection import shuffled
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.store import NotFound, Store


class Label(BaseModel):
    """A line of `labels.jsonl`: how far a person says a segment moved the adventure on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: SchemaVersion = 1
    segment_id: str
    score: Score


class LabelAgreement(BaseModel):
    """Judges against a person, by Kendall's tau-b; None where too few or too equal."""

    model_config = ConfigDict(frozen=True)

    labels: int
    weighted: float | None
    judges: dict[str, float | None]
    mean_distance: float | None
    """mean of |weighted score - label|"""


def choose(scores: Sequence[SegmentScores], count: int, seed: int) -> list[str]:
    """Segment ids to label: evenly over the judges' weighted scores, in an order that tells nothing."""
    judged = [line for line in scores if line.weighted is not None]
    ranked = sorted(judged, key=lambda line: (line.weighted or 0.0, shuffled(seed, line.segment_id)))
    step = max(len(ranked) / count, 1.0)
    chosen = [ranked[int(step * number)] for number in range(min(count, len(ranked)))]
    return sorted((line.segment_id for line in chosen), key=lambda name: shuffled(seed, name))


def read_labels(store: Store, epoch: int) -> dict[str, float]:
    """Labels by segment id; a later label of a segment replaces an earlier one. Empty without labels."""
    key = keys.labels(epoch)
    try:
        data = store.get(key)
    except NotFound:
        return {}
    labels = from_jsonl(Label, data, key, "mend or delete the file")
    return {label.segment_id: label.score for label in labels}


def write_labels(store: Store, epoch: int, labels: Mapping[str, float]) -> None:
    """Replace the epoch's labels."""
    lines = [Label(segment_id=segment, score=score) for segment, score in labels.items()]
    store.put(keys.labels(epoch), to_jsonl(lines), durable=True)


def compare(scores: Iterable[SegmentScores], labels: Mapping[str, float]) -> LabelAgreement:
    """How the judges' scores go with a person's."""
    lines = [line for line in scores if line.segment_id in labels]
    weighted = {line.segment_id: line.weighted for line in lines}
    names = sorted({name for line in lines for name in line.judges})
    distances = [abs(score - labels[segment]) for segment, score in weighted.items() if score is not None]
    return LabelAgreement(
        labels=len(lines),
        weighted=rank_correlation(weighted, labels),
        judges={
            name: rank_correlation({line.segment_id: line.judges[name].overall for line in lines}, labels)
            for name in names
        },
        mean_distance=round(sum(distances) / len(distances), 6) if distances else None,
    )
