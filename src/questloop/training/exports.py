"""Keeps a run's recorder from epoch to epoch, and joins the runners' traces for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from questloop.env.world import World
from questloop.episodes.cells import CellCollector, seen_in_epochs
from questloop.episodes.epoch_export import EpochExport, ExportReport
from questloop.episodes.exporter import Exporter
from questloop.episodes.files import Recording
from questloop.episodes.recorder import Recorder
from questloop.episodes.spans import segment_steps
from questloop.episodes.trace import Trace
from questloop.settings import Settings
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import Stage
from questloop.storage.store import Store
from questloop.training.epoch_plan import EpochPlan

_NOTHING = ExportReport(objects=(), segments=0, segments_completed=0, pngs=0, episodes=())


class Exports:
    """The recorder of all slots, handed from epoch to epoch with its open segments."""

    def __init__(self, settings: Settings, store: Store, world: World, slots: int) -> None:
        self._settings, self._store, self._world, self._slots = settings, store, world, slots
        self._recorder: Recorder | None = None
        self._state: dict[str, Any] = {}
        self._running: EpochExport | None = None
        self._cells: CellCollector | None = None

    def start_epoch(self, plan: EpochPlan) -> None:
        """Go on with the open episodes under the plan's epoch and fence."""
        recording = self._world.recording
        if recording is None:
            return
        if self._recorder is None:
            self._recorder = self._new_recorder(plan)
        else:
            self._recorder.go_on(plan.epoch, plan.fence)
        rom, profile, frame_skip = recording
        self._cells = CellCollector(profile, plan.epoch, self._seen_before(plan.epoch))
        self._running = EpochExport(
            self._store,
            self._recorder,
            Exporter(
                self._store,
                Recording(
                    profile=profile,
                    rom=rom,
                    frame_skip=frame_skip,
                    observation_version=self._world.observation_version,
                    reward_model_sha256=plan.reward_model_sha256,
                ),
            ),
            budget=self._settings.store.export_segments_per_epoch,
            epoch_steps=plan.step_end - plan.step_start,
            seed=plan.seed,
            cells=self._cells,
        )

    def _new_recorder(self, plan: EpochPlan) -> Recorder:
        game = self._settings.game
        recorder = Recorder(
            self._slots,
            run=plan.run,
            epoch=plan.epoch,
            fence=plan.fence,
            reward_names=self._world.rewards,
            milestone_names=self._world.milestones,
            segment_steps=segment_steps(game.frame_skip, game.episode_length),
        )
        if self._state:
            recorder.load_state_dict(self._state)
            self._state = {}
        return recorder

    def _seen_before(self, epoch: int) -> Iterable[int]:
        """Cells of earlier epochs: those in memory, else those in the store."""
        if self._cells is not None:
            return self._cells.seen
        earlier = committed_epochs(self._store, Stage.ROLLOUTS)
        return seen_in_epochs(self._store, (number for number in earlier if number < epoch))

    def add(self, traces: Sequence[Trace]) -> None:
        """Record the traces of all runners, in order. Waits where the exporter's queue is full."""
        if self._running is not None and traces:
            self._running.add(side_by_side(traces))

    def finish_epoch(self) -> ExportReport:
        """Wait for what is under way; what has been written."""
        if self._running is None:
            return _NOTHING
        report, self._running = self._running.close(), None
        return report

    def abort(self) -> None:
        """Stop background work without waiting for it."""
        if self._running is not None:
            self._running.abort()
            self._running = None

    def state_dict(self) -> dict[str, Any]:
        """The open segments and episodes."""
        return dict(self._recorder.state_dict()) if self._recorder else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()` with the next epoch."""
        self._state = state


def side_by_side(traces: Sequence[Trace]) -> Trace:
    """One trace of the slots of several runners."""
    if len(traces) == 1:
        return traces[0]
    arrays = ("episode_step", "action", "mode", "boundary", "taps", "obs", "reward_parts", "milestones")
    joined = {name: np.concatenate([getattr(trace, name) for trace in traces], axis=1) for name in arrays}
    first = np.cumsum([0, *(trace.shape[1] for trace in traces)]).tolist()
    frames, starts, scripts = (
        {
            (t, offset + n): value
            for offset, trace in zip(first, traces, strict=False)
            for (t, n), value in getattr(trace, name).items()
        }
        for name in ("frames", "starts", "scripts")
    )
    takeovers = [
        (t, offset + n, each)
        for offset, trace in zip(first, traces, strict=False)
        for t, n, each in trace.takeovers
    ]
    return Trace(**joined, frames=frames, starts=starts, scripts=scripts, takeovers=takeovers)
