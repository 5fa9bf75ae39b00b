"""Runs the judges of a pass: what each is asked, in which order, and what it has answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from questloop.errors import UnavailableError
from questloop.judges import quest, rules
from questloop.judges.journal import Journal
from questloop.judges.request import Case, content_hash, judge_fingerprint, messages
from questloop.judges.rubric import Judge
from questloop.judges.scores import JudgeScores
from questloop.judges.votes import DETERMINISTIC_PREFIX, OUTAGE, Voter, seeds_of
from questloop.llm.client import ChatClient
from questloop.llm.reply import ChatError, ChatFailure
from questloop.llm.routes import Route
from questloop.storage.store import Store
from questloop.telemetry import metrics

GIVE_UP_AFTER = 10
"""judgements in a row without any answer after which a judge counts as gone"""
MISCONFIGURED = frozenset({ChatFailure.UNREACHABLE, ChatFailure.REFUSED})
"""failures that, at the very first request, speak of settings rather than of a bad moment"""

Progress = Callable[[int, int], None]
"""called with judgements done and judgements in all"""


@dataclass
class JudgeRunner:
    """A judge in a pass. Each prompt is judged once per fingerprint, in this pass or an earlier one."""

    judge: Judge
    route: Route
    voter: Voter
    journal: Journal
    answers: dict[str, JudgeScores] = field(default_factory=dict)
    """by the id of the case"""
    _asked: list[Case] = field(default_factory=list, init=False)
    _silent: int = field(default=0, init=False)
    """judgements in a row that no request answered"""
    _useless: int | None = field(default=0, init=False)
    """judgements before the first valid vote; None: there was one"""

    @classmethod
    def take(
        cls, judge: Judge, store: Store, folder: str, client: ChatClient, votes: int, seed: int
    ) -> JudgeRunner:
        """Find the judge's model, its fingerprint and what it has judged before, kept under `folder`."""
        route = client.route(judge.role)
        scorer = ""
        if route.model.startswith(DETERMINISTIC_PREFIX):
            scorer = quest.VERSION if judge.reads else rules.VERSION
        mark = judge_fingerprint(judge, route.model, route.images, votes, scorer)
        voter = Voter(client, judge, route.model, mark, seeds_of(seed, votes))
        return cls(judge, route, voter, Journal(store, folder, judge.name, mark))

    @property
    def fingerprint(self) -> str:
        """A hash of all that decides what the judge answers to a prompt."""
        return self.voter.fingerprint

    async def run(self, cases: Cases, advance: Callable[[], None]) -> None:
        """Judge every case.

        The first one alone: it fills the server's prefix cache and shows what the server can do. Then twice
        as many workers as requests in flight, so that one is always ready when a slot comes free.
        """
        await self._judge(await cases.get(0))
        advance()
        numbers = iter(range(1, len(cases)))

        async def work() -> None:
            for number in numbers:
                await self._judge(await cases.get(number))
                advance()

        workers = min(2 * self.voter.client.settings.llm_concurrency, len(cases) - 1)
        await run_all(work() for _ in range(workers))
        await self._ask_again(workers)

    async def _ask_again(self, workers: int) -> None:
        """Ask once more where there was no quorum, and raise where the judge is away still.

        An outage too short to end the pass, or at its end, must not leave anything without a score.
        """
        again = iter([case for case in self._asked if not self.answers[case.segment_id].quorum])

        async def work() -> None:
            for case in again:
                await self._judge(case)

        await run_all(work() for _ in range(max(1, workers)))
        for answer in self.answers.values():
            if not answer.quorum and any(vote.invalid in OUTAGE for vote in answer.votes):
                raise self._away(answer)
        if self.answers and not self._scored and all(_unanswered(each) for each in self.answers.values()):
            raise self._away(next(iter(self.answers.values())))

    @property
    def _scored(self) -> bool:
        return any(answer.quorum for answer in self.answers.values())

    async def _judge(self, case: Case) -> None:
        content = content_hash(self.judge, case, self.route.images)
        known = await asyncio.to_thread(self.journal.find, content)
        if known is not None:
            self.answers[case.segment_id] = known
            return
        if case.segment_id not in self.answers:
            self._asked.append(case)
        prompt = await asyncio.to_thread(messages, self.judge, case, self.route.images)
        try:
            answer = await self.voter.ask(prompt)
        except ChatError as error:
            raise self._ended(str(error)) from None
        self._measure(answer)
        self._listen(answer)
        await asyncio.to_thread(self.journal.write, content, answer)
        self.answers[case.segment_id] = answer

    def _measure(self, answer: JudgeScores) -> None:
        metrics.judge_latency_seconds.labels(self.judge.name).observe(answer.latency_s)
        for vote in answer.votes:
            if vote.invalid is not None:
                metrics.judge_invalid_total.labels(self.judge.name, vote.invalid.value).inc()

    def _listen(self, answer: JudgeScores) -> None:
        """Raise where the judge is gone or was never there, rather than fill a pass with invalid votes."""
        self._silent = self._silent + 1 if _unanswered(answer) else 0
        if answer.valid:
            self._useless = None
        elif self._useless is not None:
            self._useless += 1
        if self._silent:
            misconfigured = answer.votes[-1].invalid in MISCONFIGURED and not self.answers
            if misconfigured or self._silent >= GIVE_UP_AFTER:
                raise self._away(answer)
        if self._useless is not None and self._useless >= GIVE_UP_AFTER:
            raise self._ended(f"its first {self._useless} judgements hold no valid vote ({_example(answer)})")

    def _away(self, answer: JudgeScores) -> UnavailableError:
        hint = "; LLM_IMAGES=off for a model without vision" if self.judge.pictures else ""
        failed = [vote for vote in answer.votes if isinstance(vote.invalid, ChatFailure)]
        return self._ended(f"{failed[-1].reason}{hint}")

    def _ended(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"{self.judge.name} judge ({self.route.model}): {why.rstrip(chr(46))}; "
            "what was judged is kept, the same command goes on"
        )

    def require_a_score(self) -> None:
        """Raise where not one of the answers has a quorum: the model does not judge."""
        if self.answers and not self._scored:
            example = _example(next(iter(self.answers.values())))
            raise self._ended(
                f"none of its {len(self.answers)} judgements has a majority of valid votes ({example})"
            )


def _unanswered(answer: JudgeScores) -> bool:
    """Whether no request for any of its votes was answered."""
    return all(isinstance(vote.invalid, ChatFailure) for vote in answer.votes)


def _example(answer: JudgeScores) -> str:
    """Why votes of an answer do not count, and the words of one."""
    counts = Counter(vote.invalid.value for vote in answer.votes if vote.invalid)
    first = next(vote for vote in answer.votes if vote.invalid)
    told = f": {first.reason[:80]!r}" if first.reason else ""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) + told


class Cases:
    """Cases by number, each made once, a little ahead of use and off the event loop."""

    def __init__(self, count: int, make: Callable[[int], Case], ahead: int) -> None:
        self._count, self._make, self._ahead = count, make, ahead
        self._tasks: dict[int, asyncio.Task[Case]] = {}
        self._next = 0

    def __len__(self) -> int:
        return self._count

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def get(self, number: int) -> Case:
        """The case; those that follow are begun."""
        for following in range(self._next, min(number + self._ahead, self._count)):
            self._tasks[following] = asyncio.create_task(asyncio.to_thread(self._make, following))
        self._next = max(self._next, min(number + self._ahead, self._count))
        return await self._tasks[number]


async def run_lanes(runners: Sequence[JudgeRunner], cases: Cases, progress: Progress | None) -> None:
    """Have every judge judge every case.

    Servers work side by side; on one server its judges follow one another, so that requests with a common
    prefix follow one another too.
    """
    total, done = len(cases) * len(runners), 0

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    lanes: dict[str, list[JudgeRunner]] = {}
    for runner in runners:
        lanes.setdefault(runner.route.url, []).append(runner)

    async def run_lane(lane: Sequence[JudgeRunner]) -> None:
        for runner in lane:
            await runner.run(cases, advance)

    await run_all(run_lane(lane) for lane in lanes.values())


async def run_all(jobs: Iterable[Awaitable[None]]) -> None:
    """Run all at once; the first error ends the others and is raised."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
