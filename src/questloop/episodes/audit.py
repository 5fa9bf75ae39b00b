"""Audits a store: whether every object that commits list is there, once, whole and unchanged.

The auditor knows the store's documents and nothing of a running pipeline: it starts from the commits, follows
what they list, reads and hashes every byte of it, and calls the rest an orphan.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise

from questloop.episodes.audit_objects import Checked, check_object
from questloop.episodes.findings import Audit, Kind
from questloop.episodes.retention import retired_epochs
from questloop.episodes.segment import EpisodeOutcome, EpisodeRecord
from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import Commit, CommittedObject, read_commit
from questloop.storage.keys import EpisodeId, Stage
from questloop.storage.store import NotFound, Store

THREADS = 8


def audit(store: Store, progress: Callable[[int, int], None] = lambda done, total: None) -> Audit:
    """Check the whole store; `progress` is told how many committed objects were read, and of how many."""
    return _Auditor(store, progress).run()


def remove_orphans(store: Store, found: Audit) -> int:
    """Delete the orphans that an audit found; returns how many. Only the store's writer may call this."""
    store.delete(found.orphans)
    return len(found.orphans)


class _Auditor:
    def __init__(self, store: Store, progress: Callable[[int, int], None]) -> None:
        self._store, self._progress = store, progress
        self._audit = Audit()
        self._there: dict[str, int] = {}
        self._accounted: set[str] = set()
        self._commits, self._manifests = self._audit.commits, self._audit.manifests
        self._records: dict[str, EpisodeRecord] = {}

    def run(self) -> Audit:
        self._there = {entry.key: entry.size for entry in self._store.list()}
        self._retired = self._audit.retired = retired_epochs(self._store)
        self._read_commits()
        self._check_objects()
        self._check_steps()
        self._check_segments()
        self._check_scores()
        self._check_lineage()
        self._find_orphans()
        self._audit.sort()
        return self._audit

    def _found(self, kind: Kind, key: str, detail: str, epoch: int | None = None) -> None:
        self._audit.found(kind, key, detail, epoch)

    # Commits and what they list

    def _read_commits(self) -> None:
        prefix = f"{keys.MODELS}/pipeline/"
        for key in sorted(self._there):
            epoch_name, _, name = key.removeprefix(prefix).partition("/")
            epoch = keys.parse_epoch(epoch_name)
            if not key.startswith(prefix) or epoch is None or not name.startswith("commit-"):
                continue
            stage = name.removeprefix("commit-").removesuffix(".json")
            if stage not in list(Stage):
                self._found(Kind.BAD_DOCUMENT, key, "no stage has that name")
                continue
            try:
                commit = read_commit(self._store, epoch, Stage(stage))
            except BadDataError as error:
                self._found(Kind.BAD_DOCUMENT, key, str(error), epoch)
                continue
            if commit is not None:
                if (commit.epoch, commit.stage) != (epoch, stage):
                    self._found(
                        Kind.BAD_DOCUMENT, key, f"it is of epoch {commit.epoch}, {commit.stage}", epoch
                    )
                self._commits[epoch, Stage(stage)] = commit

    def _check_objects(self) -> None:
        todo = list(self._in_force())
        with ThreadPoolExecutor(THREADS) as pool:
            for done, checked in enumerate(pool.map(self._check_object, todo), 1):
                self._audit.findings += checked.findings
                self._accounted |= checked.accounted
                if checked.manifest is not None:
                    self._manifests[checked.manifest.segment_id] = checked.manifest
                if checked.record is not None:
                    self._records[checked.record.id] = checked.record
                self._progress(done, len(todo))

    def _check_object(self, listed: tuple[Commit, CommittedObject]) -> Checked:
        commit, item = listed
        retired = commit.stage is Stage.ROLLOUTS and commit.epoch in self._retired
        return check_object(self._store, commit, item, retired)

    def _in_force(self) -> Iterator[tuple[Commit, CommittedObject]]:
        """Every committed object once, by the newest commit that lists it."""
        newest: dict[str, tuple[Commit, CommittedObject]] = {}
        for _, commit in sorted(
            self._commits.items(), key=lambda item: (item[0][0], list(Stage).index(item[0][1]))
        ):
            for item in commit.objects:
                newest[item.key] = (commit, item)
        yield from newest.values()

    # What belongs together

    def _check_steps(self) -> None:
        """Epochs follow each other, and so do their steps."""
        rollouts = [commit for (_, stage), commit in sorted(self._commits.items()) if stage is Stage.ROLLOUTS]
        for before, after in pairwise(rollouts):
            key = keys.commit(after.epoch, Stage.ROLLOUTS)
            if after.epoch != before.epoch + 1:
                missing = before.epoch + 1
                self._found(
                    Kind.MISSING, keys.commit(missing, Stage.ROLLOUTS), "later epochs are committed", missing
                )
            elif (end := before.info.get("step_end")) != (start := after.info.get("step_start")):
                detail = f"it begins at step {start}, the epoch before it ended at {end}"
                self._found(Kind.LINEAGE, key, detail, after.epoch)

    def _check_segments(self) -> None:
        """Each segment of an episode is there once, and its frames are those that no other one has."""
        for (episode, index), found in self._by_place().items():
            if len(found) > 1:
                detail = f"segment {index}: {', '.join(found)}"
                epoch = max(self._manifests[segment_id].epoch for segment_id in found)
                self._found(Kind.DUPLICATE, keys.episode_prefix(episode), detail, epoch)
        for segment_id, manifest in self._manifests.items():
            if manifest.episode_id not in self._records:
                key = keys.episode_record(manifest.episode_id)
                self._found(Kind.MISSING, key, f"of segment {segment_id}", manifest.epoch)
        self._audit.segments = len(self._manifests)
        for record in self._records.values():
            self._check_episode(record)

    @cached_property
    def _exported_of(self) -> dict[str, set[str]]:
        exported = defaultdict(set)
        for segment_id, manifest in self._manifests.items():
            exported[manifest.episode_id].add(segment_id)
        return exported

    def _by_place(self) -> dict[tuple[str, int], list[str]]:
        places = defaultdict(list)
        for segment_id, manifest in self._manifests.items():
            places[manifest.episode_id, manifest.index].append(segment_id)
        return places

    def _check_episode(self, record: EpisodeRecord) -> None:
        key, latest = keys.episode_record(record.id), record.epochs[-1]
        step = 0
        for number, entry in enumerate(record.segments):
            if (entry.index, entry.first_step) != (number, step):
                detail = f"segment {entry.segment_id} does not follow the one before it"
                self._found(Kind.BAD_DOCUMENT, key, detail, latest)
            step = entry.first_step + entry.frames
        open_steps = record.steps - step
        if not 0 <= open_steps < record.segment_steps or (
            open_steps and record.outcome is not EpisodeOutcome.RUNNING
        ):
            self._found(Kind.BAD_DOCUMENT, key, f"{record.steps} steps, its segments hold {step}", latest)
        at = 0
        for takeover in record.takeovers:
            stop = takeover.first_step + takeover.steps
            if takeover.first_step < at or stop > record.steps:
                detail = f"its takeover of steps {takeover.first_step} to {stop} is out of place"
                self._found(Kind.BAD_DOCUMENT, key, detail, latest)
            at = stop
        listed = {entry.segment_id: entry for entry in record.segments}
        for segment_id in self._exported_of[record.id]:
            if segment_id not in listed or not listed[segment_id].exported:
                detail = "its episode does not list it as exported"
                epoch = self._manifests[segment_id].epoch
                self._found(Kind.LINEAGE, keys.manifest(segment_id), detail, epoch)
        for segment_id, entry in listed.items():
            kept = (entry.epoch, Stage.ROLLOUTS) in self._commits and entry.epoch not in self._retired
            if entry.exported and kept and segment_id not in self._manifests:
                detail = "its episode lists it as exported"
                self._found(Kind.MISSING, keys.manifest(segment_id), detail, entry.epoch)

    def _check_scores(self) -> None:
        """Each score is of a committed segment of its epoch, and no segment has two."""
        for (epoch, stage), commit in self._commits.items():
            if stage is not Stage.EVALUATE or keys.scores(epoch) not in commit.listed:
                continue
            scored = Counter(self._scored(epoch))
            self._audit.scores += sum(scored.values())
            for segment_id, count in scored.items():
                if count > 1:
                    detail = f"{count} scores of segment {segment_id}"
                    self._found(Kind.DUPLICATE, keys.scores(epoch), detail, epoch)
                known = self._manifests.get(segment_id)
                if epoch not in self._retired and (known is None or known.epoch != epoch):
                    detail = f"segment {segment_id} is not of epoch {epoch}"
                    self._found(Kind.LINEAGE, keys.scores(epoch), detail, epoch)

    def _scored(self, epoch: int) -> list[str]:
        try:
            lines = self._store.get(keys.scores(epoch)).splitlines()
            return [str(json.loads(line)["segment_id"]) for line in lines]
        except NotFound:
            return []
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._found(Kind.BAD_DOCUMENT, keys.scores(epoch), f"not scores: {error!r}", epoch)
            return []

    def _check_lineage(self) -> None:
        """A segment's reward model is one that an earlier epoch committed."""
        models = {
            item.sha256: commit.epoch
            for (epoch, stage), commit in self._commits.items()
            for item in commit.objects
            if stage is Stage.REWARD_MODEL and item.key == keys.reward_model(epoch)
        }
        for segment_id, manifest in self._manifests.items():
            used = manifest.reward_model_sha256
            if used is not None and models.get(used, manifest.epoch) >= manifest.epoch:
                detail = f"no earlier epoch has reward model {used[:12]}"
                self._found(Kind.LINEAGE, keys.manifest(segment_id), detail, manifest.epoch)
        checkpoints = {
            epoch
            for (epoch, stage) in self._commits
            if stage is Stage.ROLLOUTS and epoch not in self._retired
        }
        self._audit.models = len(models) + len(checkpoints)

    def _find_orphans(self) -> None:
        for key in self._there.keys() - self._accounted:
            if _is_a_result(key):
                self._found(Kind.ORPHAN, key, "no commit lists it")


def _is_a_result(key: str) -> bool:
    """Whether a stage writes such a key for its commit to list; other keys are somebody else's."""
    top, _, rest = key.partition("/")
    folder, _, name = rest.partition("/")
    epoch_name, _, file = name.partition("/")
    if top == keys.EPISODES and folder == "scores":
        return keys.parse_epoch(epoch_name) is not None and file == "scores.jsonl"
    if top == keys.EPISODES and folder == "cells":
        return keys.parse_epoch(epoch_name) is not None  # what was judged is a journal, and no result
    if top == keys.EPISODES:
        return _is_episode(folder)
    if f"{top}/{folder}" == keys.films_prefix():
        return name.endswith("-replays.npz")  # films are somebody else's
    of_an_epoch = folder in ("checkpoints", "reward_model", "evaluations")
    return top == keys.MODELS and of_an_epoch and keys.parse_epoch(epoch_name) is not None


def _is_episode(name: str) -> bool:
    try:
        EpisodeId.parse(name)
    except BadDataError:
        return False
    return True
