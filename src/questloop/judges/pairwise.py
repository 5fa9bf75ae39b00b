"""Asks which of two segments is better, in both orders: another source of preferences.

Every pair is asked as (a, b) and as (b, a); `p = (p(a, b) + 1 - p(b, a)) / 2`. Where the two orders
contradict each other the judge follows the order, not the play, and the pair is a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from questloop.episodes.jsonl import from_jsonl, to_jsonl
from questloop.errors import BadDataError, UsageError
from questloop.judges.base_pass import BasePass
from questloop.judges.judge_runner import JudgeRunner
from questloop.judges.request import Case, Load, prepare
from questloop.judges.rubric import PAIRWISE
from questloop.judges.scores import JudgeScores, Score
from questloop.judges.selection import SegmentInfo, shuffled
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.store import NotFound, Store, StoredObject

FIRST, SEPARATOR = "A:\n", "\nB:\n"


class Preference(BaseModel):
    """A line of `preferences.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: SchemaVersion = 1
    a: str
    b: str
    """segment ids"""
    p: Score | None
    """probability that a is better; 0.5 is a tie, kept; None: an order without a quorum"""
    flip: bool
    """the two orders contradict each other"""
    p_ab: Score | None
    p_ba: Score | None
    """what was answered when b was shown first: the probability that b is better"""
    model: str
    fingerprint: str


class PairSummary(BaseModel):
    """A pairwise pass."""

    model_config = ConfigDict(frozen=True)

    pairs: int
    valid: int
    ties: int
    flips: int
    first_bias: float | None
    """mean of p(a, b) + p(b, a) - 1: above 0, the judge leans to what it is shown first"""
    accuracy: float | None
    """share of the pairs with different known outcomes where the better-liked one has the milestone; a tie
    counts half"""
    known: int
    """pairs with different known outcomes"""
    model: str
    fingerprint: str


@dataclass
class PairPass(BasePass):
    """A pass over pairs of an epoch's segments; it resumes and caches as `JudgePass` does."""

    async def run(
        self,
        segments: Sequence[SegmentInfo],
        load: Load,
        pairs: int,
        outcomes: Mapping[str, bool] | None = None,
    ) -> tuple[PairSummary, StoredObject]:
        """Judge `pairs` pairs of segments of different episodes and write `preferences.jsonl`.

        Args:
            segments: those of the epoch.
            load: reads a segment by its id.
            pairs: how many at the most; each is asked in both orders.
            outcomes: by segment id, for the summary's accuracy; no judge sees them.

        Raises:
            UnavailableError: as `JudgePass.run`.
            UsageError: the segments are of fewer than two episodes.
        """
        chosen = choose_pairs(segments, pairs, self.seed)
        if not chosen:
            raise UsageError(f"epoch {self.epoch}: pairs need segments of two episodes or more")
        runner = self.runner(PAIRWISE, keys.judgements_prefix(self.epoch))
        votes, model = self.settings.judge_votes, runner.route.model
        self.announce(f"comparing {len(chosen)} pairs x 2 orders x {votes} votes ({model})")
        found = await ask_pairs(self, runner, chosen, lambda segment_id: prepare(load(segment_id)).text)
        runner.require_a_score()
        written = self.store.put(keys.preferences(self.epoch), to_jsonl(found), durable=True)
        return summarise_pairs(found, outcomes or {}), written


async def ask_pairs(
    work: BasePass, runner: JudgeRunner, pairs: Sequence[tuple[str, str]], text_of: Callable[[str], str]
) -> list[Preference]:
    """Ask a judge about every pair in both orders; `text_of` gives what it reads of one of the two."""
    orders = [order for a, b in pairs for order in ((a, b), (b, a))]

    def make(number: int) -> Case:
        first, second = orders[number]
        return Case(pair_id(first, second), "", side_by_side(text_of(first), text_of(second)), ())

    await work.ask([runner], len(orders), make)
    answers = runner.answers
    return [preference(a, b, answers[pair_id(a, b)], answers[pair_id(b, a)]) for a, b in pairs]


def read_preferences(store: Store, epoch: int) -> list[Preference]:
    """What `PairPass` wrote; `BadDataError` where nothing was compared, or a line is none."""
    key = keys.preferences(epoch)
    try:
        data = store.get(key)
    except NotFound:
        raise BadDataError(
            f"{key} is missing: compare segments by `questloop judge compare --epoch {epoch}`"
        ) from None
    return from_jsonl(Preference, data, key, f"run `questloop judge compare --epoch {epoch}` again")


def preference(a: str, b: str, ab: JudgeScores, ba: JudgeScores) -> Preference:
    """The two orders of a pair as one preference."""
    p, flip = None, False
    if ab.overall is not None and ba.overall is not None:
        flip = (ab.overall - 0.5) * (0.5 - ba.overall) < 0
        p = 0.5 if flip else round((ab.overall + 1 - ba.overall) / 2, 6)
    return Preference(
        a=a, b=b, p=p, flip=flip, p_ab=ab.overall, p_ba=ba.overall, model=ab.model, fingerprint=ab.fingerprint
    )


def choose_pairs(segments: Sequence[SegmentInfo], count: int, seed: int) -> list[tuple[str, str]]:
    """At most `count` pairs of different episodes, no segment in many more pairs than another, seeded."""
    order = sorted(segments, key=lambda info: shuffled(seed, info.segment_id))
    chosen: list[tuple[str, str]] = []
    for distance in range(1, len(order) // 2 + 1):
        for place, info in enumerate(order):
            other = order[(place + distance) % len(order)]
            twice = 2 * distance == len(order) and place >= distance
            if info.episode_id == other.episode_id or twice:
                continue
            if len(chosen) == count:
                return chosen
            chosen.append((info.segment_id, other.segment_id))
    return chosen


def side_by_side(first: str, second: str) -> str:
    """The text of two cases, `first` shown first."""
    return f"{FIRST}{first}\n{SEPARATOR}{second}"


def pair_id(first: str, second: str) -> str:
    """The id of a case that shows `first` before `second`."""
    return f"{first}|{second}"


def summarise_pairs(found: Sequence[Preference], outcomes: Mapping[str, bool]) -> PairSummary:
    """Figures of a pairwise pass."""
    valid = [item for item in found if item.p is not None]
    leans = [item.p_ab + item.p_ba - 1 for item in valid if item.p_ab is not None and item.p_ba is not None]
    hits = [
        0.5 if item.p == 0.5 else float((item.p > 0.5) == outcomes[item.a])
        for item in valid
        if item.p is not None and outcomes.get(item.a) is not None
        if outcomes.get(item.b) == (not outcomes[item.a])
    ]
    return PairSummary(
        pairs=len(found),
        valid=len(valid),
        ties=sum(item.p == 0.5 for item in valid),
        flips=sum(item.flip for item in valid),
        first_bias=round(sum(leans) / len(leans), 6) if leans else None,
        accuracy=round(sum(hits) / len(hits), 6) if hits else None,
        known=len(hits),
        model=found[0].model,
        fingerprint=found[0].fingerprint,
    )
