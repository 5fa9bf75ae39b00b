"""The lines of `scores.jsonl`: what every judge said of a segment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from questloop.episodes.jsonl import from_jsonl, to_jsonl
from questloop.judges.rubric import Criterion
from questloop.llm.reply import ChatFailure
from questloop.llm.structured import ParseFailure
from questloop.storage import keys
from questloop.storage.commit import read_result
from questloop.storage.keys import Stage
from questloop.storage.schema import SchemaVersion
from questloop.storage.store import Store

# A text cannot hold this: its quotes are escaped.
_SEGMENT_ID = re.compile(rb'"segment_id":\s*"([A-Za-z0-9_.-]{1,200})"')

Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ValueFailure(StrEnum):
    """Why an answer that could be read holds no score."""

    CUT_OFF = "cut_off"
    NOT_A_NUMBER = "not_a_number"
    NOT_FINITE = "not_finite"
    OUT_OF_RANGE = "out_of_range"


InvalidReason = ChatFailure | ParseFailure | ValueFailure
"""Why a vote does not count. It is excluded from every statistic but the count of its reason."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tokens(_Frozen):
    """Tokens that the votes of a judge took."""

    prompt: int = 0
    completion: int = 0
    cached: int | None = None


class Vote(_Frozen):
    """One sample of a judge."""

    seed: int
    scores: dict[Criterion, Score | None] = Field(default_factory=dict)
    overall: Score | None = None
    reason: str = ""
    invalid: InvalidReason | None = None
    failover_model: str | None = None
    """the model that answered in place of the judge's own"""


class JudgeScores(_Frozen):
    """What a judge said of a segment: the median of its valid votes."""

    model: str
    fingerprint: str
    votes: tuple[Vote, ...]
    valid: int
    """votes that count"""
    quorum: bool
    """a majority of the votes count; without it there are no scores"""
    scores: dict[Criterion, Score | None]
    overall: Score | None
    spread: Score | None
    """largest minus smallest `overall` of the valid votes"""
    deterministic: bool = False
    """the judge gives the same answer to the same prompt, so its spread of 0 says nothing"""
    latency_s: float
    tokens: Tokens


class SegmentScores(_Frozen):
    """A line of `scores.jsonl`."""

    schema_version: SchemaVersion = 1
    segment_id: str
    episode_id: str
    epoch: int
    judges: dict[str, JudgeScores]
    criteria: dict[Criterion, Score | None]
    weighted: Score | None
    """weighted mean of the criteria that are there; None: there are none"""
    missing: tuple[Criterion, ...] = ()
    """criteria without a score, over which the weights were renormalised"""
    agreement: Score | None
    """1 minus the range of the judges' `overall`; None with fewer than two"""

    def stable(self) -> SegmentScores:
        """Without what differs between two equal passes: latencies and cached tokens."""
        judges = {
            name: judge.model_copy(
                update={"latency_s": 0.0, "tokens": judge.tokens.model_copy(update={"cached": None})}
            )
            for name, judge in self.judges.items()
        }
        return self.model_copy(update={"judges": judges})


class Ranks(BaseModel):
    """What segments are ordered by, of a line of `scores.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: SchemaVersion = 1
    weighted: Score | None
    agreement: Score | None


def read_scores(store: Store, epoch: int) -> list[SegmentScores]:
    """The scores of a judged epoch; `NotFound` where it was not judged, `BadDataError` where they changed."""
    key = keys.scores(epoch)
    data = read_result(store, epoch, Stage.EVALUATE, key)
    return from_jsonl(SegmentScores, data, key, "judge the epoch again")


class ScoreLines(Mapping[str, SegmentScores]):
    """The scores of a judged epoch by segment; a line is parsed when it is asked for.

    A page shows sixty of ten thousand lines: parsing all took five of the six seconds until it stood. Nor is
    more than two numbers of each needed to order them.
    """

    def __init__(self, store: Store, epoch: int) -> None:
        """`NotFound` where the epoch was not judged."""
        self._key = keys.scores(epoch)
        self._parsed: dict[str, SegmentScores] = {}
        self._lines: dict[str, bytes] = {}
        for line in read_result(store, epoch, Stage.EVALUATE, self._key).splitlines():
            found = _SEGMENT_ID.search(line)
            self._lines[found[1].decode() if found else self._parse(line).segment_id] = line

    def __getitem__(self, segment_id: str) -> SegmentScores:
        if segment_id not in self._parsed:
            self._parsed[segment_id] = self._parse(self._lines[segment_id])
        return self._parsed[segment_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def ranks(self) -> dict[str, Ranks]:
        """What every segment is ordered by."""
        ranks = from_jsonl(Ranks, b"\n".join(self._lines.values()), self._key, "judge the epoch again")
        return dict(zip(self._lines, ranks, strict=True))

    def _parse(self, line: bytes) -> SegmentScores:
        (scores,) = from_jsonl(SegmentScores, line, self._key, "judge the epoch again")
        return scores


def digest(scores: Iterable[SegmentScores]) -> str:
    """SHA-256 of what two passes over the same segments with the same seed must share."""
    return hashlib.sha256(to_jsonl(line.stable() for line in scores)).hexdigest()
