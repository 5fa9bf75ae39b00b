"""The judge pass over an epoch: resumable, parallel, each prompt judged once a fingerprint."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from questloop.errors import UnavailableError, UsageError
from questloop.judges import rules
from questloop.judges.ensemble import combine
from questloop.judges.journal import Journal, open_pass
from questloop.judges.request import Case, content_hash, judge_fingerprint, messages, prepare, prompt_tokens
from questloop.judges.rubric import JUDGES, Judge
from questloop.judges.scores import JudgeScores, SegmentScores, to_jsonl
from questloop.judges.segment import Segment, SegmentInfo
from questloop.judges.selection import POLICY, select
from questloop.judges.summary import Summary, summarise
from questloop.judges.votes import DETERMINISTIC_PREFIX, TRANSPORT, Voter, seeds_of
from questloop.llm.client import ChatClient
from questloop.llm.reply import FailureReason
from questloop.llm.routes import Route
from questloop.settings import JudgeSettings
from questloop.storage import keys
from questloop.storage.store import Store, StoredObject

SAMPLE = 8
"""segments whose prompts are measured before a pass starts"""
GIVE_UP_AFTER = 10
"""judgements in a row without any answer after which a judge counts as gone"""

Load = Callable[[str], Segment]
Progress = Callable[[int, int], None]
"""called with judgements done and judgements in all"""

MISCONFIGURED = frozenset({FailureReason.UNREACHABLE.value, FailureReason.REFUSED.value})
"""failures that, at the very first request, speak of settings rather than of a bad moment"""


@dataclass(frozen=True)
class Result:
    """What a pass wrote."""

    summary: Summary
    objects: tuple[StoredObject, ...]
    """scores.jsonl and summary.json, for the stage's commit"""


async def evaluate_epoch(
    store: Store,
    epoch: int,
    segments: Sequence[SegmentInfo],
    load: Load,
    client: ChatClient,
    settings: JudgeSettings,
    *,
    outcomes: Mapping[str, bool] | None = None,
    seed: int = 0,
    restart: bool = False,
    progress: Progress | None = None,
    announce: Callable[[str], None] = print,
) -> Result:
    """Judge the selected `segments` and write `scores.jsonl` and `summary.json`.

    `load` reads a segment by its id. `outcomes` by segment id go into the summary's tau and calibration and
    nowhere else. Killed at any point, the same call goes on; under other fingerprints it is refused.
    Raises `UnavailableError` where a judge cannot be reached, with what was judged kept.
    """
    if not segments:
        raise UsageError(f"epoch {epoch} has no segments to judge; run `questloop rollouts` first")
    chosen = select(segments, settings.judge_budget, seed)
    lanes = _lanes(store, client, settings.judge_votes, seed)
    bench = [seat for lane in lanes for seat in lane]
    open_pass(store, epoch, {seat.judge.name: seat.voter.fingerprint for seat in bench}, restart)
    async with _Cases(chosen, load, ahead=4 * client.settings.llm_concurrency) as cases:
        sample = [await cases.get(index) for index in range(min(SAMPLE, len(chosen)))]
        announce(_plan(bench, sample, len(chosen), len(segments), settings.judge_votes))
        advance = _counter(len(chosen) * len(bench), progress)
        await _all(_run_lane(lane, cases, advance) for lane in lanes)
    scores = [_line(info, epoch, bench) for info in chosen]
    prices = (client.settings.llm_usd_per_mtok_in, client.settings.llm_usd_per_mtok_out)
    summary = summarise(
        epoch,
        scores,
        available=len(segments),
        budget=settings.judge_budget,
        policy=POLICY,
        outcomes=outcomes or {},
        usd_per_mtok=prices,
    )
    written = (
        store.put(keys.scores(epoch), to_jsonl(scores), durable=True),
        store.put(keys.evaluation(epoch), summary.model_dump_json(indent=1).encode() + b"\n", durable=True),
    )
    return Result(summary, written)


@dataclass
class _Seat:
    """A judge in this pass: how it is asked and what it has answered."""

    judge: Judge
    route: Route
    voter: Voter
    journal: Journal
    answers: dict[str, JudgeScores] = field(default_factory=dict)
    silent: int = 0
    """judgements in a row that no request answered"""

    async def judge_case(self, case: Case) -> None:
        content = content_hash(self.judge, case, self.route.images)
        if content in self.journal:
            self.answers[case.segment_id] = await asyncio.to_thread(self.journal.read, content)
            return
        prompt = messages(self.judge, case, self.route.images)
        answer = await self.voter.ask(prompt)
        self._listen(answer)
        await asyncio.to_thread(self.journal.write, content, answer)
        self.answers[case.segment_id] = answer

    def _listen(self, answer: JudgeScores) -> None:
        """Raise where the judge is gone or was never there, rather than fill a pass with invalid votes."""
        failed = [vote for vote in answer.votes if vote.invalid in TRANSPORT]
        self.silent = self.silent + 1 if len(failed) == len(answer.votes) else 0
        misconfigured = bool(failed) and failed[-1].invalid in MISCONFIGURED and not self.answers
        if self.silent and (misconfigured or self.silent >= GIVE_UP_AFTER):
            hint = "; LLM_IMAGES=off for a model without vision" if self.judge.pictures else ""
            raise UnavailableError(
                f"{self.judge.name} judge ({self.route.model}): {failed[-1].reason}{hint}; "
                "what was judged is kept, the same command goes on"
            )


class _Cases:
    """Segments made ready, each once, a little ahead of use, off the event loop."""

    def __init__(self, chosen: Sequence[SegmentInfo], load: Load, ahead: int) -> None:
        self._chosen, self._load, self._ahead = chosen, load, ahead
        self._tasks: dict[int, asyncio.Task[Case]] = {}

    def __len__(self) -> int:
        return len(self._chosen)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def get(self, index: int) -> Case:
        for number in range(index, min(index + self._ahead, len(self._chosen))):
            if number not in self._tasks:
                self._tasks[number] = asyncio.create_task(asyncio.to_thread(self._prepare, number))
        return await self._tasks[index]

    def _prepare(self, number: int) -> Case:
        return prepare(self._load(self._chosen[number].segment_id))


def _lanes(store: Store, client: ChatClient, votes: int, seed: int) -> list[list[_Seat]]:
    """Judges by server: servers work side by side; on one server its judges follow one another, so that
    requests with a common prefix follow one another too."""
    lanes: dict[str, list[_Seat]] = {}
    for judge in JUDGES:
        route = client.route(judge.role)
        scorer = rules.VERSION if route.model.startswith(DETERMINISTIC_PREFIX) else ""
        mark = judge_fingerprint(judge, route.model, route.images, votes, scorer)
        voter = Voter(client, judge, route.model, mark, seeds_of(seed, votes))
        lanes.setdefault(route.url, []).append(_Seat(judge, route, voter, Journal(store, judge.name, mark)))
    return list(lanes.values())


def _counter(total: int, progress: Progress | None) -> Callable[[], None]:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return advance


async def _run_lane(lane: Sequence[_Seat], cases: _Cases, advance: Callable[[], None]) -> None:
    for seat in lane:
        await _run_seat(seat, cases, advance)


async def _run_seat(seat: _Seat, cases: _Cases, advance: Callable[[], None]) -> None:
    """The first segment alone, which fills the prefix cache and shows what the server can do; then the rest.

    Twice as many workers as requests in flight, so that one is always ready when a slot comes free.
    """
    await seat.judge_case(await cases.get(0))
    advance()
    numbers: Iterator[int] = iter(range(1, len(cases)))

    async def work() -> None:
        for number in numbers:
            await seat.judge_case(await cases.get(number))
            advance()

    workers = 2 * seat.voter.client.settings.llm_concurrency
    await _all(work() for _ in range(min(workers, len(cases) - 1)))


async def _all(jobs: Iterator[Awaitable[None]]) -> None:
    """Run all; the first error ends the others and is raised."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _line(info: SegmentInfo, epoch: int, bench: Sequence[_Seat]) -> SegmentScores:
    answers = {seat.judge.name: seat.answers[info.segment_id] for seat in bench}
    return combine(info.segment_id, info.episode_id, epoch, answers)


def _plan(bench: Sequence[_Seat], sample: Sequence[Case], chosen: int, available: int, votes: int) -> str:
    """What the pass will ask for: segments x votes x tokens."""
    prompt = sum(prompt_tokens(seat.judge, sample, seat.route.images) for seat in bench)
    models = Counter(seat.route.model for seat in bench)
    return (
        f"judging {chosen} of {available} segments x {len(bench)} judges x {votes} votes "
        f"x about {prompt / len(bench):.0f} prompt tokens = {chosen * votes * prompt / 1e6:.2f} M tokens "
        f"({', '.join(models)})"
    )
