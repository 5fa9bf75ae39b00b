"""The three stages of an epoch; each returns its commit, and a committed stage is not repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from questloop.episodes.cells import SeenCell, read_seen_cells
from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.episodes.retention import retired_epochs
from questloop.errors import BadDataError, UsageError
from questloop.game.observation import OBSERVATION_VERSION
from questloop.game.profiles import profile_in_force
from questloop.game.rom import Rom
from questloop.judges.ahead import chosen_places
from questloop.judges.cells import read_book
from questloop.judges.pairwise import read_preferences
from questloop.judges.scores import SegmentScores, read_scores
from questloop.pipeline.context import Context
from questloop.pipeline.imagined import imagined_states
from questloop.pipeline.judging import judge_epoch, judged_before
from questloop.pipeline.walkthrough import along_walkthrough, walk_of
from questloop.report.films import film_best
from questloop.rewards.aims import aims_in_force
from questloop.setting_types import AimsOf
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.commit import Commit, commit_stage, committed_epochs, holds, read_commit, read_result
from questloop.storage.keys import Stage
from questloop.storage.store import Store
from questloop.telemetry import metrics
from questloop.training.epoch_plan import EpochPlan, Progress

if TYPE_CHECKING:
    from questloop.reward_model.evidence import EpisodeStates
    from questloop.reward_model.preferences import Preferences, ScoredSegment, ScoredState
    from questloop.training.trainer import Trainer

REWARD_MODEL_EPOCHS = 4
"""Judged epochs that a reward model learns from: the newest ones, near what the policy does now."""

Counter = Callable[[int, int], None]
"""Told what is done and what there is to do."""


def rollouts(
    context: Context,
    epoch: int,
    trainer: Trainer,
    progress: Progress | None = None,
    announce: Callable[[str], None] = print,
) -> Commit:
    """Collect and learn from EPOCH_STEPS steps, export segments, write the checkpoint."""
    done = read_commit(context.store, epoch, Stage.ROLLOUTS)
    if done is not None:
        return done
    plan = plan_epoch(context, epoch)
    report = trainer.run_epoch(plan, progress, announce)
    context.lease.renew()
    commit = commit_stage(
        context.store, epoch, Stage.ROLLOUTS, context.fence, report.objects, info=report.to_json()
    )
    if context.settings.loop.film_epochs:
        film_best(context.store, context.settings, epoch)
    return commit


def plan_epoch(context: Context, epoch: int) -> EpochPlan:
    """The orders of an epoch; `BadDataError` where the epoch before it was never finished."""
    start = 0
    if epoch > 0:
        before = read_commit(context.store, epoch - 1, Stage.ROLLOUTS)
        if before is None:
            raise BadDataError(
                f"epoch {epoch}: epoch {epoch - 1} of {context.store.url} has no rollouts; "
                f"run `questloop rollouts --epoch {epoch - 1}` first"
            )
        start = int(before.info["step_end"])  # type: ignore[arg-type]
    return EpochPlan(
        run=context.run.run,
        epoch=epoch,
        fence=context.fence,
        seed=context.run.seed,
        step_start=start,
        step_end=start + context.settings.loop.epoch_steps,
        reward_model_sha256=reward_model_in_force(context.store, epoch),
        aims=judged_aims(context.store, epoch, context.settings),
    )


def judged_aims(store: Store, epoch: int, settings: Settings) -> tuple[int, ...] | None:
    """The place that judges would go to at each stage of the quest; None where they are not asked (AIMS).

    They are the judges from whom the reward model in force was learned: its trust says whether to follow.
    """
    guide = profile_in_force(settings.game).guide
    if guide is None or aims_in_force(settings.exploration, guide) is not AimsOf.JUDGES:
        return None
    learned = _last_learned(store, epoch)
    scores = judged_before(store, learned + 1).scores if learned is not None else ()
    return chosen_places(guide, {line.cell_id: line.score for line in scores})


def reward_model_in_force(store: Store, epoch: int) -> str | None:
    """SHA-256 of the newest reward model that an earlier epoch left, None where there is none."""
    learned = _last_learned(store, epoch)
    if learned is None:
        return None
    commit = read_commit(store, learned, Stage.REWARD_MODEL)
    assert commit is not None
    return next(item.sha256 for item in commit.objects if item.key == keys.reward_model(learned))


def _last_learned(store: Store, epoch: int) -> int | None:
    """The newest epoch before `epoch` that left a reward model."""
    earlier = (number for number in committed_epochs(store, Stage.REWARD_MODEL) if number < epoch)
    return max(earlier, default=None)


def evaluate(
    context: Context,
    epoch: int,
    progress: Counter | None = None,
    announce: Callable[[str], None] = print,
    restart: bool = False,
) -> Commit:
    """Have the judges score the epoch's segments.

    `restart` judges anew under the judges in force what was judged under others, and asks again where no
    majority of votes counted; `UsageError` where a reward model was learned from those scores already.
    """
    store, settings = context.store, context.settings
    done = read_commit(store, epoch, Stage.EVALUATE)
    barren = done is not None and not done.info.get("judged")  # earlier releases committed that
    if done is not None and not restart and not barren:
        return done
    needs(store, epoch, Stage.ROLLOUTS, "rollouts")
    if restart or barren:
        _withdraw_scores(store, epoch)
    result = judge_epoch(settings, store, epoch, restart=restart, progress=progress, announce=announce)
    context.lease.renew()
    summary = result.summary.model_dump(mode="json")
    return commit_stage(store, epoch, Stage.EVALUATE, context.fence, result.objects, info=summary)


def _withdraw_scores(store: Store, epoch: int) -> None:
    if read_commit(store, epoch, Stage.REWARD_MODEL) is not None:
        raise UsageError(
            f"epoch {epoch}: its reward model was learned from these scores; "
            "`questloop evaluate --measure` measures other judges without replacing them"
        )
    store.delete([keys.commit(epoch, Stage.EVALUATE)])


def reward_model(
    context: Context, epoch: int, progress: Counter | None = None, pairwise: bool = False
) -> Commit:
    """Learn the reward model from the scores of the newest judged epochs.

    With `pairwise`, from what `questloop judge compare` found in them, in place of comparing scores.
    """
    from questloop.reward_model.network import RewardModel  # torch: judging does without it
    from questloop.reward_model.train import train_reward_model

    done = read_commit(context.store, epoch, Stage.REWARD_MODEL)
    if done is not None:
        return done
    needs(context.store, epoch, Stage.EVALUATE, "evaluate")
    store = context.store
    gone = retired_epochs(store)
    judged = [n for n in committed_epochs(store, Stage.EVALUATE) if n <= epoch and n not in gone]
    previous = None
    learned = _last_learned(store, epoch)
    if learned is not None:
        key = keys.reward_model(learned)
        data = read_result(store, learned, Stage.REWARD_MODEL, key)
        previous = RewardModel.load(data, key, OBSERVATION_VERSION)
    newest = judged[-REWARD_MODEL_EPOCHS:]
    model, report = train_reward_model(
        scored_segments(store, newest),
        comparisons=compared_segments(store, newest) if pairwise else None,
        observation_version=OBSERVATION_VERSION,
        gamma=context.settings.training.gamma,
        seed=context.run.seed + epoch,
        states=scored_states(store, epoch, context.settings),
        state_pairs=compared_states(store, epoch),
        evidence=list(episodes_with_milestones(store, newest)),
        previous=previous,
        progress=progress or (lambda done, total: None),
    )
    metrics.reward_model_accuracy.set(report.accuracy.value)
    metrics.reward_drift.set(report.drift)
    context.lease.renew()
    written = store.put(keys.reward_model(epoch), model.to_bytes(), durable=True)
    info = report.to_json() | {"learned_from": scores_of(store, newest)}
    game = context.settings.game
    walk = walk_of(Rom.load(game.rom_path), context.run.frame_skip, game.game_profile)
    if walk is not None:
        coef = context.settings.exploration.shaping_coef
        info["walkthrough"] = along_walkthrough(model, walk, coef).to_json()
    return commit_stage(store, epoch, Stage.REWARD_MODEL, context.fence, [written], info=info)


def scores_of(store: Store, epochs: Iterable[int]) -> dict[str, str]:
    """SHA-256 of the committed scores of each epoch, by its number as text."""
    found = {}
    for epoch in epochs:
        commit = read_commit(store, epoch, Stage.EVALUATE)
        assert commit is not None
        found[str(epoch)] = next(item.sha256 for item in commit.objects if item.key == keys.scores(epoch))
    return found


def scored_segments(store: Store, epochs: Iterable[int]) -> Iterator[ScoredSegment]:
    """Segments with a score, one at a time, so that an epoch's observations never stand in memory at once."""
    from questloop.reward_model.preferences import ScoredSegment

    reader = SegmentReader(store)
    for epoch in epochs:
        followed = outcomes(reader, epoch)
        for line in read_scores(store, epoch):
            if line.weighted is None:
                continue
            outcome = followed.get(line.segment_id)
            view = reader.load(line.segment_id)
            yield ScoredSegment(
                episode=line.episode_id,
                observations=view.observations,
                score=line.weighted,
                spread=_spread(line),
                outcome=None if outcome is None else float(outcome),
            )


def scored_states(store: Store, epoch: int, settings: Settings) -> list[ScoredState]:
    """The cells that are judged by the end of an epoch's pass, with what the policy saw there, and what the
    judges said of states that nobody has played yet."""
    from questloop.reward_model.preferences import ScoredState

    if not holds(store, epoch, Stage.EVALUATE, keys.cell_scores(epoch)):
        return []
    score = {line.cell_id: line for line in read_book(store, epoch).scores}
    seen_cells = [
        seen
        for number in committed_epochs(store, Stage.ROLLOUTS)
        if number <= epoch
        for seen in read_seen_cells(store, number)
    ]
    played = [
        ScoredState(
            name=seen.cell.cell_id,
            episode=seen.cell.episode_id,
            observation=seen.observation,
            score=score[seen.cell.cell_id].score,
            spread=score[seen.cell.cell_id].spread,
        )
        for seen in seen_cells
        if seen.cell.cell_id in score
    ]
    return [*played, *imagined_states(seen_cells, score, settings)]


def compared_states(store: Store, epoch: int) -> list[tuple[str, str, float]]:
    """The pairs of cells that are judged side by side by then: two ids, P(the first is nearer to the end)."""
    if not holds(store, epoch, Stage.EVALUATE, keys.cell_scores(epoch)):
        return []
    return [(pair.a, pair.b, pair.p) for pair in read_book(store, epoch).pairs if pair.p is not None]


def episodes_with_milestones(store: Store, epochs: Iterable[int]) -> Iterator[EpisodeStates]:
    """States of the epochs' episodes on both sides of a milestone: of exported segments and of cells.

    Judged or not: what happened is known without judges.
    """
    from questloop.reward_model.evidence import episode_states

    reader = SegmentReader(store)
    cells: dict[str, list[SeenCell]] = {}
    for epoch in epochs:
        for seen in read_seen_cells(store, epoch):
            cells.setdefault(seen.cell.episode_id, []).append(seen)
    exported = {segment_id for epoch in epochs for segment_id in reader.list(epoch)}
    records = {record.id: record for epoch in epochs for record in reader.episodes(epoch)}
    for record in records.values():
        parts = [entry for entry in record.segments if entry.segment_id in exported]
        noted = cells.get(record.id, [])
        if not record.milestones or not (parts or noted):
            continue
        steps = [np.arange(e.first_step, e.first_step + e.frames) for e in parts]
        steps.append(np.array([seen.cell.step for seen in noted], np.int64))
        observations = [reader.load(entry.segment_id).observations for entry in parts]
        observations += [seen.observation[None] for seen in noted]
        step = np.concatenate(steps)
        order = np.argsort(step, kind="stable")
        states = episode_states(
            record.id, step[order], np.concatenate(observations)[order], record.milestones
        )
        if states is not None:
            yield states


def compared_segments(store: Store, epochs: Sequence[int]) -> Preferences:
    """The pairs that were judged side by side, as indices into `scored_segments` of the same epochs.

    Raises `BadDataError` where an epoch was not compared, or no pair of it has a judgement.
    """
    from questloop.reward_model.preferences import Preferences

    index: dict[str, int] = {}
    pairs = []
    for epoch in epochs:
        for line in read_scores(store, epoch):
            if line.weighted is not None:
                index[line.segment_id] = len(index)
        for item in read_preferences(store, epoch):
            if item.p is not None and item.a in index and item.b in index:
                pairs.append((index[item.a], index[item.b], item.p))
    if not pairs:
        raise BadDataError(
            "no two judged segments were compared: ask for more by "
            f"`questloop judge compare --epoch {epochs[-1]} --pairs 500`"
        )
    return Preferences.of(pairs)


def _spread(line: SegmentScores) -> float:
    """How far the votes of its judges lie apart, 0..1; judges that always answer the same say nothing."""
    spreads = [judge.spread for judge in line.judges.values() if judge.spread is not None]
    return sum(spreads) / len(spreads) if spreads else 0.0


def needs(store: Store, epoch: int, stage: Stage, command: str) -> None:
    """Raise `BadDataError` where `stage` of `epoch`, which `command` runs, is not committed."""
    if read_commit(store, epoch, stage) is None:
        raise BadDataError(
            f"epoch {epoch} of {store.url} has no {stage} yet; "
            f"run `questloop {command} --epoch {epoch}` first"
        )
