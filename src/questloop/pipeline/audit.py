"""Audits a run: the store's own audit, and the lineage between the results of its stages.

The store's audit follows commits, hashes and ids. Here stand the documents that only their own rooms can
read: scores, summaries, reward models and checkpoints, and the lineage from segment to score to reward model
to the epoch that it shaped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from questloop.episodes.audit import audit as audit_store
from questloop.episodes.cells import read_seen_cells
from questloop.episodes.findings import Audit, Kind
from questloop.episodes.run import Run, read_run
from questloop.errors import BadDataError, reason_of
from questloop.judges.ahead import is_imagined
from questloop.judges.cells import read_book
from questloop.judges.journal import PassRecord
from questloop.judges.scores import SegmentScores, digest, read_scores
from questloop.judges.summary import Summary
from questloop.pipeline.notes import check_notes
from questloop.storage import keys
from questloop.storage.commit import Commit
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.sealed import unseal
from questloop.storage.store import NotFound, Store

_Info = dict[str, Any]


def audit_run(store: Store, progress: Callable[[int, int], None] = lambda done, total: None) -> Audit:
    """Check the whole store; `progress` is told how many committed objects were read, and of how many."""
    return _RunAuditor(store, audit_store(store, progress)).run()


def rewind(store: Store, epoch: int, lease: Lease) -> list[str]:
    """Withdraw all that was committed from `epoch` on; the same command plays it again.

    Returns the commits' keys, the newest first: cut off at any point, what stands is whole. The objects stay
    as orphans, but for the records of judge passes: a pass over what is played again begins anew. Raises
    `BadDataError` where the checkpoint of the epoch before was retired.
    """
    if epoch > 0 and store.exists(keys.retired(epoch - 1)):
        raise BadDataError(
            f"epoch {epoch} cannot be played again: epoch {epoch - 1} was retired (KEEP_EPOCHS) and its "
            "checkpoint is gone; begin again in another STORE_URL"
        )
    last = max((number for number in _epochs(store) if number >= epoch), default=epoch - 1)
    withdrawn = []
    for number in range(last, epoch - 1, -1):
        for key in (*(keys.commit(number, stage) for stage in reversed(Stage)), keys.retired(number)):
            if store.exists(key):
                lease.check()
                store.delete([key])
                withdrawn.append(key)
        lease.check()
        store.delete([keys.judge_pass(number)])
    return withdrawn


def _epochs(store: Store) -> set[int]:
    """Epochs that the pipeline's folder knows of."""
    names = store.folders(f"{keys.MODELS}/pipeline")
    return {epoch for name in names if (epoch := keys.parse_epoch(name)) is not None}


class _RunAuditor:
    def __init__(self, store: Store, audit: Audit) -> None:
        self._store, self._audit = store, audit
        self._cells: dict[str, int] = {}  # the epoch that noted each

    def run(self) -> Audit:
        run = self._read_run()
        for (epoch, stage), commit in sorted(
            self._audit.commits.items(), key=lambda item: (item[0][0], list(Stage).index(item[0][1]))
        ):
            check = {
                Stage.ROLLOUTS: self._check_rollouts,
                Stage.EVALUATE: self._check_evaluation,
                Stage.REWARD_MODEL: self._check_reward_model,
            }[stage]
            try:
                check(epoch, commit, run)
            except NotFound:
                pass  # reported by the store's audit, with what lists it
            except BadDataError as error:
                self._found(Kind.BAD_DOCUMENT, epoch, stage, str(error))
        check_notes(self._store, self._audit)
        self._audit.sort()
        return self._audit

    def _found(self, kind: Kind, epoch: int, stage: Stage, detail: str) -> None:
        self._audit.found(kind, keys.commit(epoch, stage), detail, epoch)

    def _read_run(self) -> Run | None:
        if not self._audit.commits:
            return None
        try:
            return read_run(self._store)
        except BadDataError as error:
            kind = Kind.BAD_DOCUMENT if self._store.exists(keys.run()) else Kind.MISSING
            self._audit.found(kind, keys.run(), str(error))
            return None

    # Rollouts: steps, segments, checkpoint

    def _check_rollouts(self, epoch: int, commit: Commit, run: Run | None) -> None:
        info: _Info = commit.info
        self._check_cells(epoch)
        if epoch in self._audit.retired:
            return
        manifests = [each for each in self._audit.manifests.values() if each.epoch == epoch]
        listed = sum(key.endswith("/manifest.json") for key in commit.listed)
        if info.get("segments") != listed:
            says = f"it says {info.get('segments')} segments and lists {listed}"
            self._found(Kind.BAD_DOCUMENT, epoch, Stage.ROLLOUTS, says)
        for manifest in manifests:
            key = keys.manifest(manifest.segment_id)
            if manifest.reward_model_sha256 != info.get("reward_model_sha256"):
                says = "its reward model is not the one that shaped its epoch"
                self._audit.found(Kind.LINEAGE, key, says, epoch)
            if run is not None and (odd := _other_run(manifest, run)):
                self._audit.found(Kind.LINEAGE, key, f"its {odd} is not the run's", epoch)
        self._check_checkpoint(epoch, commit)

    def _check_cells(self, epoch: int) -> None:
        """Each cell of a run is noted by one epoch, with its observation."""
        for seen in read_seen_cells(self._store, epoch):
            cell = seen.cell
            first = self._cells.setdefault(cell.cell_id, epoch)
            if (cell.epoch, first) != (epoch, epoch):
                says = f"cell {cell.cell_id} says epoch {cell.epoch}; epoch {first} noted it"
                self._audit.found(Kind.DUPLICATE, keys.cells(epoch), says, epoch)

    def _check_checkpoint(self, epoch: int, commit: Commit) -> None:
        key = keys.checkpoint(epoch, "state.json")
        if key not in commit.listed:
            self._found(Kind.MISSING, epoch, Stage.ROLLOUTS, f"it lists no {key}")
            return
        try:
            state = json.loads(self._store.get(key))
            files, step = state["files"], state["counts"]["step"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._audit.found(Kind.BAD_DOCUMENT, key, f"not a checkpoint's state: {error!r}", epoch)
            return
        listed = {item.key: item.sha256 for item in commit.objects}
        for name, sha256 in files.items():
            if listed.get(keys.checkpoint(epoch, name)) != sha256:
                self._audit.found(Kind.LINEAGE, key, f"{name} is not the one that it names", epoch)
        if step != commit.info.get("step_end"):
            says = f"it is at step {step}, its epoch ended at {commit.info.get('step_end')}"
            self._audit.found(Kind.LINEAGE, key, says, epoch)

    # Scores and their summary

    def _check_evaluation(self, epoch: int, commit: Commit, run: Run | None) -> None:
        scores = read_scores(self._store, epoch)
        for line in scores:
            if line.epoch != epoch or not line.segment_id.startswith(f"{line.episode_id}-"):
                says = f"the score of {line.segment_id} says episode {line.episode_id}, epoch {line.epoch}"
                self._audit.found(Kind.LINEAGE, keys.scores(epoch), says, epoch)
        summary = _summary(self._store, epoch)
        judged = sum(line.weighted is not None for line in scores)
        if (summary.epoch, summary.judged) != (epoch, judged) or summary.scores_sha256 != digest(scores):
            says = f"it is not of the {judged} scores of epoch {epoch}"
            self._audit.found(Kind.LINEAGE, keys.evaluation(epoch), says, epoch)
        self._check_judges(epoch, scores, summary)
        self._check_pass(epoch, summary)
        if keys.cell_scores(epoch) in commit.listed:
            self._check_cell_scores(epoch)

    def _check_cell_scores(self, epoch: int) -> None:
        """Scores and pairs are of cells that were seen by then, and no cell has two scores."""
        book = read_book(self._store, epoch)
        scored = Counter(line.cell_id for line in book.scores)
        for cell_id, count in scored.items():
            if count > 1:
                says = f"{count} scores of cell {cell_id}"
                self._audit.found(Kind.DUPLICATE, keys.cell_scores(epoch), says, epoch)
        named = scored.keys() | {cell_id for pair in book.pairs for cell_id in (pair.a, pair.b)}
        for cell_id in sorted(named):
            if not is_imagined(cell_id) and self._cells.get(cell_id, epoch + 1) > epoch:
                says = f"cell {cell_id} was not seen by epoch {epoch}"
                self._audit.found(Kind.LINEAGE, keys.cell_scores(epoch), says, epoch)

    def _check_pass(self, epoch: int, summary: Summary) -> None:
        """The record of what the epoch was judged under; stores of before have one without a digest."""
        key = keys.judge_pass(epoch)
        try:
            record = unseal(self._store.get(key), PassRecord)
        except (NotFound, ValueError):  # one that cannot be read is found with its kin
            return
        if not summary.fingerprints.items() <= record.fingerprints.items():
            self._audit.found(Kind.LINEAGE, key, "its fingerprints are not those of the scores", epoch)

    def _check_judges(self, epoch: int, scores: list[SegmentScores], summary: Summary) -> None:
        """One pass, one fingerprint a judge."""
        for line in scores:
            used = {name: judge.fingerprint for name, judge in line.judges.items()}
            if used != summary.fingerprints:
                says = f"{line.segment_id} was judged under other fingerprints than its pass"
                self._audit.found(Kind.LINEAGE, keys.scores(epoch), says, epoch)

    # Reward models

    def _check_reward_model(self, epoch: int, commit: Commit, run: Run | None) -> None:
        from questloop.reward_model.network import RewardModel  # torch, where there is a model only

        key = keys.reward_model(epoch)
        if key not in commit.listed:
            self._found(Kind.MISSING, epoch, Stage.REWARD_MODEL, f"it lists no {key}")
            return
        try:
            RewardModel.load(self._store.get(key), key, run.observation_version if run else None)
        except BadDataError as error:
            if not isinstance(error, NotFound):
                self._audit.found(Kind.BAD_DOCUMENT, key, str(error), epoch)
        learned_from = commit.info.get("learned_from")
        if not isinstance(learned_from, dict):  # committed before models named their scores
            return
        for text, sha256 in learned_from.items():
            number = int(text) if text.isascii() and text.isdigit() else -1
            judged = self._audit.commits.get((number, Stage.EVALUATE))
            listed = {item.key: item.sha256 for item in judged.objects} if judged else {}
            if judged is None or listed.get(keys.scores(number)) != sha256:
                says = f"the scores of epoch {text} are not those that it was learned from"
                self._audit.found(Kind.LINEAGE, key, says, epoch)


def _other_run(manifest: Any, run: Run) -> str:
    """What of a segment's manifest is not its run's; empty: all is."""
    for name in ("run", "rom_sha256", "frame_skip", "observation_version"):
        if getattr(manifest, name) != getattr(run, name):
            return name
    return ""


def _summary(store: Store, epoch: int) -> Summary:
    key = keys.evaluation(epoch)
    try:
        return Summary.model_validate_json(store.get(key))
    except ValidationError as error:
        raise BadDataError(f"{key}: not a summary: {reason_of(error)}") from None
