"""Takeovers of many games side by side: which games the planner plays, and by which plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.mode import Mode
from questloop.episodes.takeover import EndedTakeover, PlayedPlan, Takeover
from questloop.episodes.trace import MODES
from questloop.game.actions import Action
from questloop.game.batch import PART_FRAMES, GameBatch
from questloop.game.columns import Columns
from questloop.game.profile import Profile
from questloop.game.state import state_of
from questloop.llm.reply import ChatError
from questloop.planner.client import Picture, Planner, request
from questloop.planner.executor import Abort, Executor
from questloop.planner.modes import ModeRules, ModeState
from questloop.planner.plan import InvalidPlan, Plan, in_words
from questloop.planner.view import Scene, is_dialog_state, puzzle_of
from questloop.planner.wanted import Wanted
from questloop.telemetry import metrics

MAX_PLANS = 12
"""Plans per takeover: an abort is answered by a new plan, until this many have been played."""

DONE = "done"  # of a plan: played to its end
SOLVED, UNAVAILABLE, EPISODE_OVER, CUT = "solved", "unavailable", "episode_over", "cut"
"""Outcomes beside the reasons of `Abort`; `cut`: at the end of an epoch, where the state is written."""

VISION = "vision"  # the route of a puzzle's second and later plans, beside those named as the modes

Playing = Generator[Action | None, Scene, str]
"""yields the next button, or None while the game is to stand still; is sent the scene that it led to"""


class Game(Protocol):
    """What a takeover needs of an environment of `N` slots."""

    num_slots: int
    batch: GameBatch
    columns: Columns
    profile: Profile


@dataclass
class TakeoverReport:
    """What happened since the last report."""

    outcomes: Counter[str] = field(default_factory=Counter)  # by "mode outcome"
    steps: int = 0  # played by plans
    plans: int = 0
    invalid: int = 0
    waits: list[tuple[str, float]] = field(default_factory=list)  # route and seconds until it was answered

    def add(self, other: TakeoverReport) -> None:
        """Take in another report."""
        self.outcomes.update(other.outcomes)
        self.steps += other.steps
        self.plans += other.plans
        self.invalid += other.invalid
        self.waits += other.waits

    def publish(self) -> None:
        """Add to this process's metrics."""
        for name, count in self.outcomes.items():
            mode, _, outcome = name.partition(" ")
            metrics.takeover_total.labels(mode, outcome).inc(count)
        for route, seconds in self.waits:
            metrics.mode_latency_seconds.labels(route).observe(seconds)

    def to_json(self) -> dict[str, Any]:
        """For an epoch's report."""
        return {
            "takeovers": dict(sorted(self.outcomes.items())),
            "steps": self.steps,
            "plans": self.plans,
            "plans_invalid": self.invalid,
            "plan_latency_s": sum(seconds for _, seconds in self.waits) / len(self.waits)
            if self.waits
            else None,
        }


class Takeovers:
    """Watches `N` games and puts the planner's buttons in the policy's place where it takes over.

    A plan presses a button every `PART_FRAMES` frames, however many frames a step has: the batch asks for
    those within a step. What a plan does is the same at every FRAME_SKIP that `PART_FRAMES` divides.
    """

    name = "takeovers"

    def __init__(self, game: Game, planner: Planner, frame_skip: int, rules: ModeRules | None = None) -> None:
        self._game, self._planner, self._frame_skip = game, planner, frame_skip
        self._rules = rules or ModeRules()
        self._states = [ModeState(self._rules) for _ in range(game.num_slots)]
        self._playing: dict[int, Playing] = {}
        self._fresh: set[int] = set()
        self._records: dict[int, Takeover] = {}
        self._ended: list[EndedTakeover] = []
        self._row = 0  # steps since `take_ended`
        self._puzzles = _PuzzleTable(game.profile)
        self._wanted = Wanted(game.num_slots, game.profile)
        self.latest = TakeoverReport()  # since `report` was called

    def act(
        self, action: NDArray[np.uint8], mask: NDArray[np.bool_], mode: NDArray[np.uint8] | None = None
    ) -> None:
        """Overwrite `action[N]` and clear `mask[N]` where a plan is played; `mode[N]` says which kind."""
        dialog = self._game.columns.text_active
        puzzle = self._riddles()
        for slot in range(self._game.num_slots):
            if slot not in self._playing and not self._observe(slot, bool(dialog[slot]), bool(puzzle[slot])):
                continue
            chosen = self._next(slot)
            if slot not in self._playing:
                continue
            action[slot], mask[slot] = Action.NOP if chosen is None else chosen, False
            self._game.batch.scripts[slot] = partial(self._within, slot)
            self._states[slot] = self._states[slot].played(self._frame_skip)
            self.latest.steps += 1
            self._records[slot].steps += 1
            if mode is not None:
                mode[slot] = MODES.index(self._states[slot].mode)
        self._row += 1

    def ended(self, slots: NDArray[np.intp]) -> None:
        """The episodes of `slots` are over; new ones have begun."""
        self._wanted.forget(slots)
        for slot in slots.tolist():
            self._stop(slot, EPISODE_OVER, past=1)
            self._states[slot] = ModeState(self._rules)

    def report(self) -> TakeoverReport:
        report, self.latest = self.latest, TakeoverReport()
        return report

    def take_ended(self) -> list[EndedTakeover]:
        """The takeovers that ended since this was called last; rows count from there."""
        ended, self._ended, self._row = self._ended, [], 0
        return ended

    def state_dict(self) -> dict[str, Any]:
        """Modes and counts. Plans under way are dropped, here as for whoever goes on from this state.

        Belongs between `take_ended` and the next step: what is cut ends before row 0.
        """
        for slot in list(self._playing):
            self._stop(slot, CUT)
        self._wanted.forget()
        return {
            "ended": [each.to_json() for each in self._ended],
            "modes_in_frames": [
                [MODES.index(s.mode), MODES.index(s.candidate), s.streak, s.cooldown, s.spent]
                for s in self._states
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._playing.clear()
        self._records.clear()
        self._ended = [EndedTakeover.from_json(each) for each in state.get("ended", ())]
        self._game.batch.paused.clear()
        self._game.batch.scripts.clear()
        self._wanted.forget()
        self._states = [
            ModeState(self._rules, MODES[mode], MODES[candidate], streak, cooldown, spent)
            for mode, candidate, streak, cooldown, spent in _modes_in_frames(state, self._frame_skip)
        ]

    def close(self) -> None:
        self._planner.close()

    def _riddles(self) -> NDArray[np.bool_]:
        """Where the hero stands before a riddle that the quest asks for, or in a fight that was begun."""
        columns = self._game.columns
        puzzle, begun = self._puzzles(columns), self._wanted.watch(columns)
        for slot in np.flatnonzero(puzzle & ~begun).tolist():
            if slot not in self._playing and not self._states[slot].cooldown:
                puzzle[slot] = self._wanted(columns, slot, partial(self._scene, slot))
        return puzzle

    # One slot

    def _observe(self, slot: int, dialog: bool, puzzle: bool) -> bool:
        """Whether a takeover begins; an idle slot costs one comparison."""
        state = self._states[slot]
        if not dialog and not puzzle and state.at_rest:
            return False
        state = self._states[slot] = state.observe(dialog, puzzle, self._frame_skip)
        if not {Mode.POLICY: False, Mode.DIALOG: dialog, Mode.PUZZLE: puzzle}[state.mode]:
            return False
        scene = self._scene(slot)
        room = f"{scene.state.group}:{scene.state.room:02x}"
        record = Takeover(mode=state.mode.value, room=room, first_step=0, steps=0, outcome="", plans=[])
        self._records[slot] = record
        self._playing[slot] = self._play(slot, state.mode, scene, record)
        self._fresh.add(slot)
        return True

    def _within(self, slot: int) -> Action:
        """The button of a step's later part. Nothing is pressed in what is left of a takeover's last step,
        nor until the next step where a plan has to be waited for."""
        chosen = self._next(slot, past=1) if slot in self._playing else None
        return Action.NOP if chosen is None else chosen

    def _next(self, slot: int, past: int = 0) -> Action | None:
        """The plan's next button; None while the game waits for a plan and once the takeover is over.

        `past`: 1 within a step, which is then the takeover's last one where it ends."""
        playing, paused = self._playing[slot], self._game.batch.paused
        fresh = slot in self._fresh
        self._fresh.discard(slot)
        paused.discard(slot)
        try:
            action = next(playing) if fresh else playing.send(self._scene(slot))
            if action is None:
                paused.add(slot)
            return action
        except StopIteration as over:
            outcome: str = over.value
        self._count(slot, outcome, past)
        del self._playing[slot]
        self._game.batch.scripts.pop(slot, None)
        state = self._states[slot]
        self._states[slot] = state.handed_back() if outcome == SOLVED else state.failed()
        return None

    def _stop(self, slot: int, outcome: str, past: int = 0) -> None:
        playing = self._playing.pop(slot, None)
        self._fresh.discard(slot)
        self._game.batch.paused.discard(slot)
        self._game.batch.scripts.pop(slot, None)
        if playing is not None:
            playing.close()
            self._count(slot, outcome, past)

    def _count(self, slot: int, outcome: str, past: int) -> None:
        self.latest.outcomes[f"{self._states[slot].mode} {outcome}"] += 1
        record = self._records.pop(slot)
        record.outcome = outcome
        self._ended.append(EndedTakeover(slot, self._row - past, past, record))

    def _scene(self, slot: int) -> Scene:
        return scene_of(self._game, slot)

    def _play(self, slot: int, mode: Mode, scene: Scene, record: Takeover) -> Playing:
        """Plan and play until what held the hero up is gone; the outcome."""
        room = scene.state.group, scene.state.room
        outcome: str = ""
        refused: Plan | None = None  # ended before its first button: said once more, it ends so again
        for _ in range(MAX_PLANS):
            began = time.perf_counter()
            picture = self._picture(slot) if outcome and mode is Mode.PUZZLE else None
            document = request(mode, scene, self._game.profile, failed=outcome)
            source = self._planner.source(mode, picture is not None)
            told = PlayedPlan(step=record.steps, source=source, reason="", macros=(), played=0, ended="")
            record.plans.append(told)
            future = self._planner.ask(mode, document, picture)
            while not future.done():
                scene = yield None
            route = mode.value if picture is None else VISION
            plan, refusal = self._answer(route, future, time.perf_counter() - began)
            if plan is None:
                told.ended = refusal
                if refusal == UNAVAILABLE:
                    return UNAVAILABLE
                outcome = refusal
                scene = yield Action.NOP
                continue
            told.reason, told.macros = plan.reason, tuple(map(in_words, plan.macros))
            executor = Executor(plan, scene, self._game.profile, min(PART_FRAMES, self._frame_skip))
            result = yield from executor.run()
            scene = executor.scene
            told.played, told.ended = result.macros, result.abort or DONE
            outcome = result.abort or Abort.NO_PROGRESS
            if not result.frames:
                if refused is not None and refused.macros == plan.macros:
                    return outcome
                refused = plan
            if mode is Mode.DIALOG and not is_dialog_state(scene.state):
                return SOLVED
            if mode is Mode.PUZZLE and room != (scene.state.group, scene.state.room):
                return result.abort or Abort.ROOM_CHANGED
            if mode is Mode.PUZZLE and puzzle_of(scene.state, self._game.profile) is None:
                return SOLVED
        return outcome

    def _picture(self, slot: int) -> Picture | None:
        """The screen, for a planner that has use for it."""
        return self._game.batch.emulators[slot].picture() if self._planner.sees else None

    def _answer(self, route: str, future: Future[Plan], seconds: float) -> tuple[Plan | None, str]:
        self.latest.plans += 1
        self.latest.waits.append((route, seconds))
        try:
            return future.result(), ""
        except InvalidPlan:
            self.latest.invalid += 1
            return None, Abort.INVALID
        except ChatError:
            return None, UNAVAILABLE


def scene_of(game: Game, slot: int) -> Scene:
    """What a slot shows now, within a step too, when the columns of all slots are those of the last one."""
    details = game.profile.details
    seen = game.batch.emulators[slot].look(details) if details is not None else {}
    columns = game.profile.columns(game.batch.taps[slot : slot + 1])
    return Scene(state_of(columns, 0, game.profile), seen)


def _modes_in_frames(state: dict[str, Any], frame_skip: int) -> list[list[int]]:
    """Of each slot what `state_dict` saved. Earlier versions counted steps, and takeovers, whose frames are
    not known: their budget begins anew."""
    if "modes_in_frames" in state:
        modes: list[list[int]] = state["modes_in_frames"]
        return modes
    return [
        [mode, candidate, streak * frame_skip, cooldown * frame_skip, 0]
        for mode, candidate, streak, cooldown, _ in state["modes"]
    ]


class _PuzzleTable:
    """`is_puzzle_state` of every slot at once."""

    def __init__(self, profile: Profile) -> None:
        self._rooms = np.zeros(8 * 256, np.bool_)
        self._puzzles = {
            group << 8 | room: puzzle for (group, room), puzzle in profile.terrain.puzzles.items()
        }
        self._rooms[list(self._puzzles)] = True
        self._items = {name: place for place, name in enumerate(profile.items)}

    def __call__(self, columns: Columns) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = self._rooms[columns.place & 2047] & columns.has_control
        for slot in np.flatnonzero(held).tolist():
            held[slot] = self._holds(columns, slot)
        return held

    def _holds(self, columns: Columns, slot: int) -> bool:
        puzzle = self._puzzles[int(columns.place[slot]) & 2047]
        counters = (columns.room_flags, columns.enemies, columns.triggers, columns.torches)
        if puzzle.is_solved(*(int(column[slot]) for column in counters)):
            return False
        if puzzle.needs:
            return bool(columns.items[slot, self._items[puzzle.needs]])
        return not puzzle.riddle.needs_blade or bool(columns.sword_level[slot])
