"""Strategic hints: every few hundred steps a planner says where to go, and the policy may follow."""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.takeover import EndedTakeover
from questloop.game.batch import GameBatch
from questloop.game.columns import Columns
from questloop.game.profile import Profile
from questloop.llm.reply import ChatError
from questloop.planner.client import Picture
from questloop.planner.hint import MODE, Hint, ToExit, cell_of, request
from questloop.planner.plan import HEADINGS, InvalidPlan
from questloop.planner.room import SIDES
from questloop.planner.takeover import UNAVAILABLE, scene_of
from questloop.planner.view import TILE, View, view_of
from questloop.telemetry import metrics

GIVEN, NONE, INVALID, LATE = "given", "none", "invalid", "late"
"""What became of a request, beside `unavailable`; `late`: room or episode had been left."""

logger = logging.getLogger(__name__)


class Targets(Protocol):
    """Where hints go: `rewards.hints.HintTargets`."""

    counts: Counter[str]

    def aim(self, slot: int, place: int, y: int, x: int, edge: int = ...) -> None:
        """Point a slot at a pixel of a room, and at one of its edges."""


class Adviser(Protocol):
    """What `planner.client.Planner` is to hints."""

    sees: bool

    def hint(self, document: dict[str, Any], picture: Picture | None = None) -> Future[Hint]:
        """A hint for a request document of `request`; or `InvalidPlan` or `ChatError`."""

    def close(self) -> None:
        """Ask no more."""


class HintedGame(Protocol):
    """What hints need of an environment of `N` slots."""

    num_slots: int
    batch: GameBatch
    columns: Columns
    profile: Profile

    @property
    def targets(self) -> Targets | None:
        """None: the environment was built without hints."""

    @property
    def rooms_beside(self) -> NDArray[np.bool_]:
        """[N, 4]: whether the rooms up, right, down and left were entered in this episode."""


@dataclass
class HintReport:
    """What happened since the last report."""

    outcomes: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)  # seconds

    def add(self, other: HintReport) -> None:
        """Take in another report."""
        self.outcomes.update(other.outcomes)
        self.waits += other.waits

    def publish(self) -> None:
        """Add to this process's metrics."""
        for seconds in self.waits:
            metrics.mode_latency_seconds.labels(MODE).observe(seconds)

    def to_json(self) -> dict[str, Any]:
        """For an epoch's report."""
        latency = sum(self.waits) / len(self.waits) if self.waits else None
        return {"outcomes": dict(sorted(self.outcomes.items())), "latency_s": latency}


@dataclass
class _Asked:
    answer: Future[Hint]
    place: int
    view: View
    began: float


class Hints:
    """Asks for a hint every `interval` steps of each game, from the first one with control on.

    The game plays on while the planner thinks. Hints in flight are not checkpointed.
    """

    def __init__(self, game: HintedGame, adviser: Adviser, interval: int) -> None:
        assert game.targets is not None
        self._game, self._adviser, self._interval = game, adviser, interval
        self._targets: Targets = game.targets
        self._wait = np.zeros(game.num_slots, np.int64)  # steps until the next one is due
        self._asked: dict[int, _Asked] = {}
        self._latest = HintReport()

    name = "hints"

    def act(self, action: NDArray[np.uint8], mask: NDArray[np.bool_], mode: NDArray[np.uint8]) -> None:
        """Take in answers and ask where a hint is due; the actions are the policy's."""
        columns = self._game.columns
        due = (self._wait <= 0) & columns.has_control & ~columns.transition & ~columns.text_active
        self._wait -= 1
        for slot in np.flatnonzero(due).tolist():
            if slot not in self._asked:
                self._ask(slot)
        for slot in [slot for slot, asked in self._asked.items() if asked.answer.done()]:
            self._take(slot, self._asked.pop(slot))

    def ended(self, slots: NDArray[np.intp]) -> None:
        """The episodes of `slots` are over; new ones have begun."""
        self._wait[slots] = 0
        for slot in slots.tolist():
            if self._asked.pop(slot, None):
                self._latest.outcomes[LATE] += 1

    def take_ended(self) -> list[EndedTakeover]:
        """None: hints take nothing over."""
        return []

    def report(self) -> HintReport:
        report, self._latest = self._latest, HintReport()
        report.outcomes.update(self._targets.counts)
        self._targets.counts.clear()
        return report

    def state_dict(self) -> dict[str, Any]:
        """When the next hints are due. Those under way are dropped, here as for whoever goes on from this."""
        self._latest.outcomes[LATE] += len(self._asked)
        self._asked.clear()
        return {"wait": self._wait.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._asked.clear()
        self._wait[:] = state["wait"]

    def close(self) -> None:
        self._adviser.close()

    # One slot

    def _ask(self, slot: int) -> None:
        game = self._game
        self._wait[slot] = self._interval
        scene = scene_of(game, slot)
        picture = game.batch.emulators[slot].picture() if self._adviser.sees else None
        document = request(scene, game.profile, game.rooms_beside[slot].tolist())
        place = scene.state.group << 8 | scene.state.room
        answer = self._adviser.hint(document, picture)
        self._asked[slot] = _Asked(answer, place, view_of(scene, game.profile), time.perf_counter())

    def _take(self, slot: int, asked: _Asked) -> None:
        outcome = self._aim(slot, asked)
        self._latest.outcomes[outcome] += 1
        self._latest.waits.append(time.perf_counter() - asked.began)

    def _aim(self, slot: int, asked: _Asked) -> str:
        try:
            hint = asked.answer.result()
        except InvalidPlan:
            return INVALID
        except ChatError:
            return UNAVAILABLE
        if hint.target is None:
            return NONE
        if self._game.columns.place[slot] != asked.place:
            return LATE
        cell = cell_of(hint.target, asked.view)
        if cell is None:
            return INVALID
        y, x = (TILE * each + TILE // 2 for each in cell)
        side = SIDES.index(HEADINGS[hint.target.direction]) if isinstance(hint.target, ToExit) else -1
        self._targets.aim(slot, asked.place, y, x, side)
        logger.info("hint for game %d in room %04x: %s (%s)", slot, asked.place, hint.target, hint.reason)
        return GIVEN
