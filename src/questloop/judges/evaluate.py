"""The judge pass over an epoch: resumable, parallel, and each prompt judged only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from questloop.errors import UnavailableError, UsageError
from questloop.judges.cells import CellPass
from questloop.judges.ensemble import combine
from questloop.judges.journal import open_pass
from questloop.judges.jsonl import to_jsonl
from questloop.judges.judge_runner import Cases, Progress, Seat, run_lanes
from questloop.judges.request import Case, Load, prepare, prompt_tokens
from questloop.judges.rubric import JUDGES
from questloop.judges.selection import POLICY, SegmentInfo, select
from questloop.judges.summary import Summary, summarise
from questloop.llm.client import ChatClient
from questloop.settings import JudgeSettings
from questloop.storage import keys
from questloop.storage.store import Store, StoredObject
from questloop.telemetry import metrics

SAMPLE = 8
"""segments whose prompts are measured before a pass starts"""


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
    guide: str = "",
    cells: CellPass | None = None,
    seed: int = 0,
    restart: bool = False,
    keep: bool = True,
    progress: Progress | None = None,
    announce: Callable[[str], None] = print,
) -> Result:
    """Judge the selected `segments` and write `scores.jsonl` and `summary.json`; the cells before them.

    `guide` is the text that every prompt begins with. `load` reads a segment by its id. `outcomes` by segment
    id go into the summary's tau and calibration and nowhere else. Killed at any point, the same call goes on;
    under other fingerprints it is refused unless
    `restart`. Without `keep` nothing but the cache of judgements is written: a measurement of the judges.
    Raises `UnavailableError` where a judge cannot be reached or does not judge, or a segment is left without
    any score: the pass stays open, with what was judged cached.
    """
    if not segments:
        raise UsageError(f"epoch {epoch} has no segments to judge; run `questloop rollouts` first")
    chosen = select(segments, settings.judge_budget, seed)
    folder = keys.judgements_prefix(epoch)
    seats = [
        Seat.take(judge.guided(guide), store, folder, client, settings.judge_votes, seed) for judge in JUDGES
    ]
    if keep:
        marks = {seat.judge.name: seat.fingerprint for seat in seats}
        open_pass(store, epoch, marks | (cells.fingerprints if cells else {}), restart)
    judged = await cells.run(progress, announce) if cells else None

    def make(number: int) -> Case:
        return prepare(load(chosen[number].segment_id))

    async with Cases(len(chosen), make, ahead=4 * client.settings.llm_concurrency) as prepared:
        sample = [await prepared.get(number) for number in range(min(SAMPLE, len(chosen)))]
        announce(_plan(seats, sample, len(chosen), len(segments), settings.judge_votes))
        await run_lanes(seats, prepared, progress)
    if keep:
        _require_scores(seats, chosen)
    scores = [
        combine(
            info.segment_id,
            info.episode_id,
            epoch,
            {seat.judge.name: seat.answers[info.segment_id] for seat in seats},
        )
        for info in chosen
    ]
    summary = summarise(
        epoch,
        scores,
        available=len(segments),
        budget=settings.judge_budget,
        policy=POLICY,
        outcomes=outcomes or {},
        cells=judged.summary if judged else None,
        usd_per_mtok=(client.settings.llm_usd_per_mtok_in, client.settings.llm_usd_per_mtok_out),
    )
    if not keep:
        return Result(summary, ())
    if summary.alpha is not None:
        metrics.judge_agreement_alpha.set(summary.alpha)
    written = (
        store.put(keys.scores(epoch), to_jsonl(scores), durable=True),
        store.put(keys.evaluation(epoch), summary.model_dump_json(indent=1).encode() + b"\n", durable=True),
    )
    return Result(summary, (*written, *(judged.objects if judged else ())))


def _require_scores(seats: Sequence[Seat], chosen: Sequence[SegmentInfo]) -> None:
    """Leave the pass open where a judge gave no score at all, or a segment got none of any judge."""
    for seat in seats:
        seat.require_a_score()
    bare = [
        info.segment_id for info in chosen if not any(seat.answers[info.segment_id].quorum for seat in seats)
    ]
    if bare:
        reasons = Counter(
            vote.invalid.value for seat in seats for vote in seat.answers[bare[0]].votes if vote.invalid
        )
        raise UnavailableError(
            f"{len(bare)} of {len(chosen)} segments got no score of any judge, {bare[0]} for "
            f"{', '.join(reasons)}; what was judged is kept, the same command asks for the rest"
        )


def _plan(seats: Sequence[Seat], sample: Sequence[Case], chosen: int, available: int, votes: int) -> str:
    """What the pass will ask for: segments x votes x tokens."""
    prompt = sum(prompt_tokens(seat.judge, sample, seat.route.images) for seat in seats)
    models = Counter(seat.route.model for seat in seats)
    return (
        f"judging {chosen} of {available} segments x {len(seats)} judges x {votes} votes "
        f"x about {prompt / len(seats):.0f} prompt tokens = {chosen * votes * prompt / 1e6:.2f} M tokens "
        f"({', '.join(models)})"
    )
