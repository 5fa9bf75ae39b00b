"""Samples a judge several times and takes the median of the valid votes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from questloop.judges.rubric import MAX_REPLY_TOKENS, TEMPERATURE, Criterion, Judge
from questloop.judges.scores import InvalidReason, JudgeScores, Tokens, ValueFailure, Vote
from questloop.llm.client import ChatClient, Message
from questloop.llm.reply import FINAL, ChatError, ChatFailure, Reply, ReplyChoice
from questloop.llm.structured import ParseError, parse_object

DETERMINISTIC_PREFIX = "rule-based"
REASON_LENGTH = 400

OUTAGE = frozenset(ChatFailure) - {ChatFailure.REFUSED, ChatFailure.TOO_LARGE}
"""failures of a server that is away or unwell; what it refuses is a prompt of its own"""


def read_vote(choice: ReplyChoice, judge: Judge, seed: int, failover_model: str | None = None) -> Vote:
    """A completion as a vote. What cannot be read is invalid with its reason, never a number."""

    def invalid(reason: InvalidReason) -> Vote:
        return Vote(seed=seed, invalid=reason, failover_model=failover_model, reason=_excerpt(choice.text))

    try:
        answer = parse_object(choice.text, judge.fields)
    except ParseError as error:
        if choice.finish_reason == "length":
            return invalid(ValueFailure.CUT_OFF)
        return invalid(error.reason)
    problem = _problem(answer["overall"]) or next(
        (found for name in judge.criteria if answer[name] is not None and (found := _problem(answer[name]))),
        None,
    )
    if problem:
        return invalid(problem)
    return Vote(
        seed=seed,
        scores={name: None if answer[name] is None else float(answer[name]) for name in judge.criteria},
        overall=float(answer["overall"]),
        reason=_excerpt(answer.get("reason", "")),
        failover_model=failover_model,
    )


def quorum_of(asked: int) -> int:
    """Valid votes that a score needs: a majority of those asked.

    >>> [quorum_of(m) for m in (1, 2, 3, 5)]
    [1, 2, 2, 3]
    """
    return asked // 2 + 1


def tally(
    votes: Sequence[Vote], judge: Judge
) -> tuple[dict[Criterion, float | None], float | None, float | None]:
    """Median by criterion, median and range of `overall`; all None without a quorum.

    The median of the valid samples is self-consistency (Wang et al. 2022) for numbers. A criterion that most
    valid votes call absent is absent.
    """
    valid = [vote for vote in votes if vote.invalid is None]
    if len(valid) < quorum_of(len(votes)):
        return dict.fromkeys(judge.criteria), None, None
    scores: dict[Criterion, float | None] = {}
    for name in judge.criteria:
        given = [score for vote in valid if (score := vote.scores[name]) is not None]
        scores[name] = median(given) if 2 * len(given) > len(valid) else None
    overall = [vote.overall for vote in valid if vote.overall is not None]
    return scores, median(overall), max(overall) - min(overall)


def seeds_of(seed: int, count: int) -> list[int]:
    """Distinct seeds of a judgement's votes; consecutive, as servers derive those of n samples.

    >>> seeds_of(0, 3)
    [1, 2, 3]
    """
    return [seed * 64 + 1 + index for index in range(count)]


@dataclass
class Voter:
    """Asks one judge for M votes: one request with n = M where the server supports it, else M requests."""

    client: ChatClient
    judge: Judge
    model: str
    fingerprint: str
    seeds: Sequence[int]
    shared: bool = field(init=False)
    """whether the server is asked for n samples by one request"""
    _proven: bool = field(default=False, init=False)
    """it has given n different samples once"""

    def __post_init__(self) -> None:
        self.shared = len(self.seeds) > 1

    async def ask(self, messages: Sequence[Message]) -> JudgeScores:
        """Judge one prompt. Failed requests become invalid votes; `ChatError` where no other would help."""
        votes: list[Vote] = []
        replies: list[Reply] = []
        if self.shared:
            votes, reply = await self._ask_shared(messages)
            replies += [reply] if reply else []
        missing = self.seeds[len(votes) :]
        for vote, reply in await asyncio.gather(*(self._ask_one(messages, seed) for seed in missing)):
            votes.append(vote)
            replies += [reply] if reply else []
        return self._scores(votes, replies)

    async def _ask_shared(self, messages: Sequence[Message]) -> tuple[list[Vote], Reply | None]:
        """Votes of one request; fewer than M where the server does not support n."""
        try:
            reply = await self._chat(messages, self.seeds[0], len(self.seeds))
        except ChatError as error:
            if error.reason is ChatFailure.REFUSED and not self._proven:
                self.shared = False
                return [], None
            return [_failed(error, seed) for seed in self.seeds], None
        choices = reply.choices[: len(self.seeds)]
        different = len({choice.text for choice in choices}) > 1 or _deterministic(reply.model)
        if len(choices) < len(self.seeds):
            self.shared = False
        elif different:
            self._proven = True
        elif not self._proven:
            self.shared = False  # one seed for all n samples: no votes at all
            choices = choices[:1]
        backup = reply.model if reply.failover_from else None
        return [
            read_vote(choice, self.judge, seed, backup)
            for choice, seed in zip(choices, self.seeds, strict=False)
        ], reply

    async def _ask_one(self, messages: Sequence[Message], seed: int) -> tuple[Vote, Reply | None]:
        try:
            reply = await self._chat(messages, seed, 1)
        except ChatError as error:
            return _failed(error, seed), None
        backup = reply.model if reply.failover_from else None
        return read_vote(reply.choices[0], self.judge, seed, backup), reply

    async def _chat(self, messages: Sequence[Message], seed: int, n: int) -> Reply:
        return await self.client.chat(
            self.judge.role,
            messages,
            schema=self.judge.schema,
            seed=seed,
            n=n,
            max_tokens=MAX_REPLY_TOKENS,
            temperature=TEMPERATURE,
        )

    def _scores(self, votes: Sequence[Vote], replies: Sequence[Reply]) -> JudgeScores:
        scores, overall, spread = tally(votes, self.judge)
        cached = [reply.usage.cached for reply in replies if reply.usage.cached is not None]
        return JudgeScores(
            model=self.model,
            fingerprint=self.fingerprint,
            votes=tuple(votes),
            valid=sum(vote.invalid is None for vote in votes),
            quorum=overall is not None,
            scores=scores,
            overall=overall,
            spread=spread,
            deterministic=_deterministic(self.model),
            latency_s=round(max((reply.latency_s for reply in replies), default=0.0), 4),
            tokens=Tokens(
                prompt=sum(reply.usage.prompt for reply in replies),
                completion=sum(reply.usage.completion for reply in replies),
                cached=sum(cached) if cached else None,
            ),
        )


def _deterministic(model: str) -> bool:
    return model.startswith(DETERMINISTIC_PREFIX)


def _failed(error: ChatError, seed: int) -> Vote:
    if error.reason in FINAL:
        raise error
    return Vote(seed=seed, invalid=error.reason, reason=_excerpt(str(error)))


def _problem(value: Any) -> ValueFailure | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ValueFailure.NOT_A_NUMBER
    if isinstance(value, float) and not math.isfinite(value):
        return ValueFailure.NOT_FINITE
    return None if 0 <= value <= 1 else ValueFailure.OUT_OF_RANGE


def _excerpt(text: Any) -> str:
    return " ".join(str(text).split())[:REASON_LENGTH]
