"""Reads a run's documents from the store once each, for pages that many browsers look at.

Commits, manifests and scores never change once they are written, so a page costs the store little more than
one listing, however many browsers look on. Nothing here writes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.episodes.run import Run, read_run
from questloop.episodes.segment import EpisodeRecord, Manifest, parse_record
from questloop.episodes.session import Session, read_sessions
from questloop.errors import BadDataError
from questloop.judges.scores import Ranks, ScoreLines, SegmentScores
from questloop.report import table
from questloop.storage import keys
from questloop.storage.commit import Commit, commit_name, epochs_by_document, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, Store

FRESH_S = 2.0
"""how old a listing may be"""
KEPT = 5000
"""answers kept; those that were not asked for longest leave"""

T = TypeVar("T")


class RunBook:
    """A run in a store; safe for many threads."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self.reader, self._clock = store, SegmentReader(store), clock
        self._lock = threading.Lock()
        self._known: dict[Hashable, Any] = {}
        self._listed: dict[Hashable, tuple[float, Any]] = {}

    def run(self) -> Run | None:
        """The run; None before one has begun."""
        try:
            return self.once("run", lambda: read_run(self.store))
        except BadDataError:
            return None

    def progress(self) -> dict[str, Any] | None:
        """`progress.json`; None where there is none, or none that can be read."""
        try:
            document = json.loads(self._fresh("progress", lambda: self.store.get(keys.progress())))
        except (NotFound, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def agents(self) -> dict[str, Any]:
        """`agents.json`: what a few agents saw at the newest look; empty where there is none."""
        try:
            document = json.loads(self._fresh("agents", lambda: self.store.get(keys.agents())))
        except (NotFound, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def epochs(self, stage: Stage = Stage.ROLLOUTS) -> tuple[int, ...]:
        """Epochs whose stage is committed, rising."""
        return self._documents().get(commit_name(stage), ())

    def exported(self) -> tuple[int, ...]:
        """Epochs whose segments are still there, rising."""
        gone = frozenset(self._documents().get("retired.json", ()))
        return tuple(epoch for epoch in self.epochs() if epoch not in gone)

    def state(self) -> str:
        """Changes whenever a stage is committed."""
        return "/".join(",".join(map(str, self.epochs(stage))) for stage in Stage)

    def info(self, epoch: int, stage: Stage) -> dict[str, Any]:
        """What a committed stage reports; empty where it is not committed."""
        commit = self._commit(epoch, stage)
        return dict(commit.info) if commit else {}

    def played(self) -> dict[int, dict[str, Any]]:
        """The reports of all epochs."""
        return {epoch: self.info(epoch, Stage.ROLLOUTS) for epoch in self.epochs()}

    def so_far(self) -> dict[int, dict[str, Any]]:
        """The reports of all epochs, and of one that still goes on its curve and visits, where it has any."""
        played, progress = self.played(), self.progress() or {}
        epoch, training = progress.get("epoch"), progress.get("training") or {}
        if epoch is not None and epoch not in played and "curve" in training:
            return {**played, epoch: training}
        return played

    def rows(self) -> list[table.Row]:
        """The closing table so far."""
        return [
            self.once(("row", epoch, self._stages(epoch)), partial(self._row, epoch))
            for epoch in self.epochs()
        ]

    def sessions(self) -> list[Session]:
        """The processes that wrote the store, the first one first."""
        return self._fresh("sessions", lambda: read_sessions(self.store))

    def films(self) -> dict[int, list[str]]:
        """Names of the films that `questloop video` made, by epoch, the newest epoch first."""
        keys_ = self._fresh("films", lambda: [entry.key for entry in self.store.list(keys.films_prefix())])
        found: dict[int, list[str]] = {}
        for epoch, name in sorted(filter(None, map(keys.parse_film, keys_)), key=lambda film: -film[0]):
            found.setdefault(epoch, []).append(name)
        return found

    def segments(self, epoch: int) -> tuple[str, ...]:
        """Ids of the epoch's exported segments."""
        if epoch not in self.exported():
            return ()
        return self.once(("segments", epoch), partial(self._segments, epoch))

    def manifest(self, segment_id: str) -> Manifest:
        """A segment's manifest; `NotFound` for an id that is none."""
        return self.once(("manifest", segment_id), lambda: self.reader.manifest(segment_id))

    def weighted(self, epoch: int) -> dict[str, float]:
        """The judges' weighted score by segment, of those that have one."""
        ranks = self._ranks(epoch)
        return {name: line.weighted for name, line in ranks.items() if line.weighted is not None}

    def agreement(self, epoch: int) -> dict[str, float]:
        """How far the judges agree, by segment, of those that two judged."""
        ranks = self._ranks(epoch)
        return {name: line.agreement for name, line in ranks.items() if line.agreement is not None}

    def scores(self, epoch: int) -> Mapping[str, SegmentScores]:
        """What the judges said, by segment; empty where the epoch is not judged."""
        return self._score_lines(epoch) or {}

    def episodes(self, epoch: int) -> tuple[EpisodeRecord, ...]:
        """The episodes that the epoch touched."""
        return self.once(("episodes", epoch, self.epochs()), lambda: self.reader.episodes(epoch))

    def episode(self, episode_id: str) -> EpisodeRecord:
        """An episode as it stands now; `NotFound` for an id that is none."""
        key = keys.episode_record(episode_id)
        return parse_record(self.store.get(key), key)

    def outcomes(self, epoch: int) -> dict[str, bool]:
        """Whether a milestone followed, by segment, where it is known by now."""
        return self.once(("outcomes", epoch, self.epochs()), lambda: outcomes(self.reader, epoch))

    def _segments(self, epoch: int) -> tuple[str, ...]:
        commit = self._commit(epoch, Stage.ROLLOUTS)
        listed = commit.listed if commit else ()
        return tuple(sorted(key.split("/")[2] for key in listed if key.endswith("/manifest.json")))

    def _commit(self, epoch: int, stage: Stage) -> Commit | None:
        if epoch not in self.epochs(stage):
            return None
        return self.once(("commit", epoch, stage), lambda: read_commit(self.store, epoch, stage))

    def _row(self, epoch: int) -> table.Row:
        return table.row_of(epoch, *(self.info(epoch, stage) for stage in Stage))

    def _documents(self) -> dict[str, tuple[int, ...]]:
        """One listing for all that is asked of the pipeline's folder."""
        return self._fresh("documents", lambda: epochs_by_document(self.store))

    def _score_lines(self, epoch: int) -> ScoreLines | None:
        if epoch not in self.epochs(Stage.EVALUATE) or epoch not in self.exported():
            return None
        return self.once(("scores", epoch), lambda: ScoreLines(self.store, epoch))

    def _ranks(self, epoch: int) -> dict[str, Ranks]:
        lines = self._score_lines(epoch)
        return {} if lines is None else self.once(("ranks", epoch), lines.ranks)

    def _stages(self, epoch: int) -> tuple[Stage, ...]:
        return tuple(stage for stage in Stage if epoch in self.epochs(stage))

    def once(self, name: Hashable, read: Callable[[], T]) -> T:
        """What `read` gives, read the first time that `name` is asked for."""
        with self._lock:
            if name in self._known:
                self._known[name] = self._known.pop(name)  # the newest last
                return self._known[name]  # type: ignore[no-any-return]
        found = read()
        with self._lock:
            self._known[name] = found
            while len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
        return found

    def _fresh(self, name: Hashable, read: Callable[[], T]) -> T:
        with self._lock:
            at, found = self._listed.get(name, (-FRESH_S, None))
            if name in self._listed and self._clock() - at < FRESH_S:
                return found  # type: ignore[no-any-return]
        found = read()
        with self._lock:
            self._listed[name] = self._clock(), found
        return found
