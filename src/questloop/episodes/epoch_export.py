"""Exports an epoch: selects segments within its budget, and writes its episodes, inputs and cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from questloop.episodes.cells import CellCollector
from questloop.episodes.exporter import Exporter
from questloop.episodes.recorder import Recorder
from questloop.episodes.replays import encode_replays
from questloop.episodes.segment import EpisodeRecord
from questloop.episodes.selection import Selection
from questloop.episodes.trace import Trace
from questloop.storage import keys
from questloop.storage.commit import to_json
from questloop.storage.store import Store, StoredObject

WINDOWS = 10
RESERVE = 32  # segments


@dataclass(frozen=True)
class ExportReport:
    """What an epoch left in the store; `objects` are for the stage's commit."""

    objects: tuple[StoredObject, ...]
    segments: int  # exported
    segments_completed: int
    pngs: int
    episodes: tuple[EpisodeRecord, ...]
    cells: int = 0  # first seen in it


class EpochExport:
    """Records, selects and exports while an epoch is played.

    The budget is spent in tenths of the epoch: after each, what was selected goes to the exporter, so that
    encoding overlaps with playing. A few segments are held back for what the last tenth cannot spend.
    """

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        exporter: Exporter,
        *,
        budget: int | Literal["all"],
        epoch_steps: int,
        seed: int,
        cells: CellCollector | None = None,
    ) -> None:
        self._store, self._recorder, self._exporter = store, recorder, exporter
        self._budget, self._epoch_steps, self._cells = budget, epoch_steps, cells
        self._selection = Selection(0, seed)
        self._window, self._spent, self._steps, self._completed = 0, 0, 0, 0
        self._make_room()

    def add(self, trace: Trace) -> None:
        """Record a trace. Waits only while the exporter's queue is full, raises where it stopped."""
        steps, slots = trace.shape
        self._steps += steps * slots
        for segment in self._recorder.add(trace):
            self._completed += 1
            if self._budget == "all":
                self._exporter.submit(segment)
            else:
                self._selection.offer(segment)
        if self._cells is not None:
            self._cells.add(trace, self._recorder.episode_of)
        window = min(WINDOWS - 1, self._steps * WINDOWS // self._epoch_steps)
        if window > self._window:
            self._submit_selected(self._quota())
            self._window = window
            self._make_room()

    def close(self) -> ExportReport:
        """Wait until every selected segment is stored, then write the episodes' records and inputs."""
        if self._budget != "all":
            self._submit_selected(self._budget - self._spent)
        exported = self._exporter.close()
        self._recorder.mark_exported(item.segment_id for item in exported)
        records = tuple(self._recorder.records())
        written = [
            self._store.put(keys.episode_record(record.id), to_json(record), durable=True)
            for record in records
        ]
        replays = self._store.put(
            keys.replays(self._recorder.epoch), encode_replays(self._recorder.replays()), durable=True
        )
        cells = self._cells.write(self._store) if self._cells is not None else ()
        return ExportReport(
            objects=(*(item.manifest for item in exported), *written, replays, *cells),
            segments=len(exported),
            segments_completed=self._completed,
            pngs=sum(item.pngs for item in exported),
            episodes=records,
            cells=len(self._cells) if self._cells is not None else 0,
        )

    def abort(self) -> None:
        """Stop without waiting; what was uploaded is an orphan."""
        self._exporter.abort()

    def _quota(self) -> int:
        """How many more may be exported by the end of this tenth."""
        if self._budget == "all":
            return 0
        return -(-self._budget * (self._window + 1) // WINDOWS) - self._spent

    def _make_room(self) -> None:
        if self._budget != "all":
            reserve = max(RESERVE, self._budget // WINDOWS)
            self._selection.budget = min(self._budget - self._spent, self._quota() + reserve)

    def _submit_selected(self, count: int) -> None:
        selected = self._selection.take(count)
        self._spent += len(selected)
        for segment in selected:
            self._exporter.submit(segment)
