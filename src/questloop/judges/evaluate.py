"""The judge pass over an epoch: resumable, parallel, and each prompt judged only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from questloop.episodes.jsonl import to_jsonl
from questloop.errors import UnavailableError, UsageError
from questloop.judges.base_pass import BasePass
from questloop.judges.cells import CellPass
from questloop.judges.ensemble import combine
from questloop.judges.journal import open_pass
from questloop.judges.judge_runner import JudgeRunner, run_lanes
from questloop.judges.request import Case, Load, prepare, prompt_tokens
from questloop.judges.rubric import JUDGES
from questloop.judges.scores import SegmentScores
from questloop.judges.selection import POLICY, SegmentInfo, select
from questloop.judges.summary import Summary, summarise
from questloop.storage import keys
from questloop.storage.store import StoredObject
from questloop.telemetry import metrics

SAMPLE = 8
"""segments whose prompts are measured before a pass starts"""


@dataclass(frozen=True)
class JudgePassResult:
    """What a pass wrote."""

    summary: Summary
    objects: tuple[StoredObject, ...]
    """scores.jsonl and summary.json, for the stage's commit"""


@dataclass
class JudgePass(BasePass):
    """A judge pass over the segments of an epoch.

    Killed at any point, the same pass goes on; under other fingerprints it is refused unless `restart`.
    """

    restart: bool = False  # judge anew what was judged under other fingerprints
    keep: bool = True  # else nothing but the cache of judgements is written: a measurement of the judges

    async def run(
        self,
        segments: Sequence[SegmentInfo],
        load: Load,
        outcomes: Mapping[str, bool] | None = None,
        cells: CellPass | None = None,
    ) -> JudgePassResult:
        """Judge the selected `segments` and write `scores.jsonl` and `summary.json`; `cells` before them.

        Args:
            segments: those of the epoch; JUDGE_BUDGET of them are selected.
            load: reads a segment by its id.
            outcomes: by segment id, for the summary's tau and calibration; no judge sees them.
            cells: the pass over the run's cells; None: none is made.

        Raises:
            UnavailableError: a judge cannot be reached or does not judge, or a segment is left without any
                score. The pass stays open, with what was judged cached.
            UsageError: there are no segments, or the epoch was judged under other fingerprints.
        """
        if not segments:
            raise UsageError(_nothing_to_judge(self.epoch))
        chosen = select(segments, self.settings.judge_budget, self.seed)
        runners = [self.runner(judge, keys.judgements_prefix(self.epoch)) for judge in JUDGES]
        if self.keep:
            marks = {runner.judge.name: runner.fingerprint for runner in runners}
            marks |= cells.fingerprints if cells else {}
            open_pass(self.store, self.epoch, marks, self.restart)
        judged = await cells.run() if cells else None
        await self._judge(runners, chosen, load, len(segments))
        scores = [_combined(info, self.epoch, runners) for info in chosen]
        prices = self.client.settings.llm_usd_per_mtok_in, self.client.settings.llm_usd_per_mtok_out
        summary = summarise(
            self.epoch,
            scores,
            available=len(segments),
            budget=self.settings.judge_budget,
            policy=POLICY,
            outcomes=outcomes or {},
            cells=judged.summary if judged else None,
            usd_per_mtok=prices,
        )
        written = self._write(scores, summary) if self.keep else ()
        return JudgePassResult(summary, (*written, *(judged.objects if judged and self.keep else ())))

    async def _judge(
        self, runners: Sequence[JudgeRunner], chosen: Sequence[SegmentInfo], load: Load, available: int
    ) -> None:
        """Have every judge judge every chosen segment, once it was said what that asks for."""

        def make(number: int) -> Case:
            return prepare(load(chosen[number].segment_id))

        async with self.cases(len(chosen), make) as prepared:
            sample = [await prepared.get(number) for number in range(min(SAMPLE, len(chosen)))]
            self.announce(_plan(runners, sample, len(chosen), available, self.settings.judge_votes))
            await run_lanes(runners, prepared, self.progress)
        if self.keep:
            _require_scores(runners, chosen, self.epoch)

    def _write(self, scores: Sequence[SegmentScores], summary: Summary) -> tuple[StoredObject, ...]:
        if summary.alpha is not None:
            metrics.judge_agreement_alpha.set(summary.alpha)
        document = summary.model_dump_json(indent=1).encode() + b"\n"
        return (
            self.store.put(keys.scores(self.epoch), to_jsonl(scores), durable=True),
            self.store.put(keys.evaluation(self.epoch), document, durable=True),
        )


def _combined(info: SegmentInfo, epoch: int, runners: Sequence[JudgeRunner]) -> SegmentScores:
    answers = {runner.judge.name: runner.answers[info.segment_id] for runner in runners}
    return combine(info.segment_id, info.episode_id, epoch, answers)


def _require_scores(runners: Sequence[JudgeRunner], chosen: Sequence[SegmentInfo], epoch: int) -> None:
    """Leave the pass open where a judge gave no score at all, or a segment got none of any judge."""
    for runner in runners:
        runner.require_a_score()
    bare = [
        info.segment_id
        for info in chosen
        if not any(runner.answers[info.segment_id].quorum for runner in runners)
    ]
    if bare:
        reasons = Counter(
            vote.invalid.value for runner in runners for vote in runner.answers[bare[0]].votes if vote.invalid
        )
        raise UnavailableError(
            f"{len(bare)} of {len(chosen)} segments got no score of any judge, {bare[0]} for "
            f"{', '.join(reasons)}; what was judged is kept, the same command asks for the rest; where no "
            f"model reads it, `LLM_BACKEND=embedded questloop evaluate --epoch {epoch} --restart` has the "
            "rule-based judges score the whole epoch"
        )


def _nothing_to_judge(epoch: int) -> str:
    return (
        f"epoch {epoch} has no segments to judge: no agent played as long as one in it; raise EPOCH_STEPS or "
        f"lower ENVS_PER_WORKER, and play it again after `questloop verify --rewind {epoch} --repair`"
    )


def _plan(
    runners: Sequence[JudgeRunner], sample: Sequence[Case], chosen: int, available: int, votes: int
) -> str:
    """What the pass will ask for: segments x votes x tokens."""
    prompt = sum(prompt_tokens(runner.judge, sample, runner.route.images) for runner in runners)
    models = Counter(runner.route.model for runner in runners)
    return (
        f"judging {chosen} of {available} segments x {len(runners)} judges x {votes} votes "
        f"x about {prompt / len(runners):.0f} prompt tokens = {chosen * votes * prompt / 1e6:.2f} M tokens "
        f"({', '.join(models)})"
    )
