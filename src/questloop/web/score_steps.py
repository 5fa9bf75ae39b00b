"""How the votes of a segment's judges became its score, step by step, for the segment's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from questloop.judges.rubric import JUDGES, WEIGHTS, Criterion
from questloop.judges.scores import JudgeScores, SegmentScores, Vote
from questloop.judges.votes import quorum_of


@dataclass(frozen=True)
class CriterionStep:
    """A line of the sum; `score` None: no judge gave one, and the other weights count for more."""

    name: str
    judge: str  # who owns it
    weight: float
    score: float | None

    @property
    def product(self) -> float | None:
        """Weight times score."""
        return None if self.score is None else self.weight * self.score


@dataclass(frozen=True)
class VoteGroup:
    """Valid votes that say the same, or an invalid one."""

    vote: Vote
    numbers: tuple[int, ...]  # from 1

    @property
    def which(self) -> str:
        """`1`, or `1 to 3`, or `1, 3`."""
        first, last = self.numbers[0], self.numbers[-1]
        if len(self.numbers) > 1 and last - first == len(self.numbers) - 1:
            return f"{first} to {last}"
        return ", ".join(map(str, self.numbers))


@dataclass(frozen=True)
class ScoreSteps:
    """The sum of a segment's score, and what it rests on."""

    line: SegmentScores
    criteria: tuple[CriterionStep, ...]

    @classmethod
    def of(cls, line: SegmentScores) -> ScoreSteps:
        """The steps of a line of `scores.jsonl`."""
        owners = {name: judge.name for judge in JUDGES for name in judge.criteria}
        steps = [
            CriterionStep(name, owners[name], WEIGHTS[name], line.criteria.get(name)) for name in Criterion
        ]
        return cls(line, tuple(steps))

    @property
    def total(self) -> float:
        """The sum of weight times score."""
        return sum(step.product for step in self.criteria if step.product is not None)

    @property
    def weight(self) -> float:
        """The sum of the weights of the criteria that have a score."""
        return sum(step.weight for step in self.criteria if step.score is not None)

    @property
    def missing(self) -> list[str]:
        """Criteria without a score."""
        return [step.name for step in self.criteria if step.score is None]

    @property
    def overall(self) -> list[tuple[str, float]]:
        """Each judge's own overall score, the highest first."""
        given = [(name, judge.overall) for name, judge in self.line.judges.items()]
        return sorted(
            ((name, score) for name, score in given if score is not None), key=lambda item: -item[1]
        )


def vote_groups(votes: Sequence[Vote]) -> list[VoteGroup]:
    """Votes, those that say the same as one, in the order in which they were first said."""
    groups: dict[str, tuple[Vote, list[int]]] = {}
    for number, vote in enumerate(votes, 1):
        same = vote.model_dump_json(exclude={"seed"})
        groups.setdefault(same, (vote, []))[1].append(number)
    return [VoteGroup(vote, tuple(numbers)) for vote, numbers in groups.values()]


def said(judge: JudgeScores) -> str:
    """What became of a judge's votes in a sentence."""
    asked, valid = len(judge.votes), [vote for vote in judge.votes if vote.invalid is None]
    if not judge.quorum:
        return f"{len(valid)} of {asked} votes count, {quorum_of(asked)} are needed: no score."
    numbers = [vote.overall for vote in valid if vote.overall is not None]
    kept = f"{len(valid)} votes" if len(valid) == asked else f"{len(valid)} of {asked} votes count"
    if asked == 1:
        return "1 vote."
    if len(set(numbers)) == 1:
        return f"{kept}, all {judge.overall:.2f}."
    return f"{kept}, from {min(numbers):.2f} to {max(numbers):.2f}; the median counts, {judge.overall:.2f}."
