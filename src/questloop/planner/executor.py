"""Plays a plan: how each of its macros walks, pushes, talks and fights, button by button.

Macros are generators that yield buttons; they never step the emulator themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, replace
from enum import StrEnum

from questloop.game import state as game
from questloop.game.actions import Action
from questloop.game.batch import PART_FRAMES
from questloop.game.profile import Profile
from questloop.planner import plan as macros
from questloop.planner.blocks import Push, locks
from questloop.planner.paths import find_path
from questloop.planner.room import SIDES, Direction, Place, neighbour
from questloop.planner.view import TILE, Scene, View, view_of

Steps = Generator[Action, Scene, None]
"""yields the next button, is sent the scene it led to"""

LOW_HEALTH = 4  # quarter hearts: whoever has no more does not fight on
NEAR = 4  # pixels off a cell's middle that still stand on it
_LANE = 3  # pixels off a lane's middle at which a walk along it is put straight
_REACH, _ACROSS = 24, 10  # pixels in front of and beside the hero that the blade reaches
_STUCK_FRAMES = 120
_SETTLE_FRAMES = 900
_FRAMES = {
    "MOVE_TO": 1800,
    "PUSH_BLOCK": 1800,
    "USE_ITEM": 300,
    "TALK": 5400,
    "CHOOSE": 5400,
    "WAIT": 3600,
    "ATTACK": 5400,
    "EXIT": 1800,
}


class Abort(StrEnum):
    """Why a plan was not played to its end."""

    TIMEOUT = "timeout"  # a macro took more than its frames
    DAMAGE = "damage"
    ROOM_CHANGED = "room_changed"  # not planned
    NO_PROGRESS = "no_progress"
    NO_PATH = "no_path"
    REFUSED_PUSH = "refused_push"  # no block there, no room for it, or it would lock the puzzle
    LOST_CONTROL = "lost_control"
    INVALID = "invalid"  # the macro does not fit this moment


class _Aborted(Exception):
    def __init__(self, reason: Abort) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class PlanResult:
    """How a plan ended; `macros` were played to their end."""

    abort: Abort | None
    macros: int
    frames: int


class Executor:
    """One plan from one scene. `scene` is the latest one.

    Its buttons last `tick` frames each. Walks and fights need no more than `PART_FRAMES`: in four frames the
    hero walks four pixels, in sixteen a whole cell.
    """

    def __init__(self, plan: macros.Plan, scene: Scene, profile: Profile, tick: int = PART_FRAMES) -> None:
        self.scene = scene
        self._plan, self._profile, self._tick = plan, profile, tick
        self._frames = self._deadline = 0
        self._leaving = self._fighting = False
        self._begin("WAIT")

    def run(self) -> Generator[Action, Scene, PlanResult]:
        """Every macro in order, until one aborts."""
        done = 0
        try:
            for macro in self._plan.macros:
                self._begin(macro.do)
                yield from _MACROS[type(macro)](self, macro)
                done += 1
        except _Aborted as aborted:
            return PlanResult(aborted.reason, done, self._frames)
        return PlanResult(None, done, self._frames)

    # Macros

    def _move_to(self, macro: macros.MoveTo) -> Steps:
        goal = macro.row, macro.column
        view = self._view()
        if not view.room.inside(goal):
            raise _Aborted(Abort.INVALID)
        self._leaving = goal in view.doors
        yield from self._walk([goal])
        if self._leaving:
            yield from self._settle()

    def _push_block(self, macro: macros.PushBlock) -> Steps:
        view = self._view()
        push = Push((macro.row, macro.column), macros.HEADINGS[macro.direction])
        if not view.still.can_push(push.block, push.direction):
            raise _Aborted(Abort.REFUSED_PUSH)
        if view.plates and locks(view.still, view.hero, push, view.plates):
            raise _Aborted(Abort.REFUSED_PUSH)
        yield from self._walk([push.stand])
        began = self._frames
        while push.block in self._view().room.blocks:
            if self._frames - began > _STUCK_FRAMES:
                raise _Aborted(Abort.NO_PROGRESS)
            yield from self._press(_ACTIONS[push.direction])
        while self.scene.state.block_moving:
            yield from self._press(Action.NOP)
        yield from self._pause(2)

    def _use_item(self, macro: macros.UseItem) -> Steps:
        yield from self._settle()
        if macro.direction:
            yield from self._face(macros.HEADINGS[macro.direction])
        yield from self._press(Action.A if macro.button == "A" else Action.B)
        yield from self._pause(5)
        yield from self._settle()

    def _talk(self, macro: macros.Talk) -> Steps:
        place = macro.row, macro.column
        view = self._view()
        if not view.room.inside(place) or view.room.open(place):
            raise _Aborted(Abort.INVALID)
        ways = [side.opposite for side in (view.chest_sides if place in view.chests else SIDES)]
        beside = {neighbour(place, way.opposite): way for way in ways}
        yield from self._walk([stand for stand in beside if view.room.open(stand)])
        yield from self._face(beside[self._view().hero])
        before = self.scene
        for _ in range(3):
            yield from self._press(Action.A)
            yield from self._pause(2)
            state = self.scene.state
            same_room = self.scene.details.get("room_layout") == before.details.get("room_layout")
            if not _calm(state) or not same_room:
                yield from self._read()
                return
        raise _Aborted(Abort.NO_PROGRESS)

    def _choose(self, macro: macros.Choose) -> Steps:
        """Read to the question, answer it, and read on; without a question, read to the end."""
        if not self._talking():
            raise _Aborted(Abort.INVALID)
        yield from self._read()
        if not self.scene.state.text_choice:
            return
        for _ in range(4):
            if self.scene.answer == macro.option:
                break
            yield from self._press(Action.RIGHT)
            yield from self._press(Action.NOP)
        if self.scene.answer != macro.option:
            raise _Aborted(Abort.NO_PROGRESS)
        while self.scene.state.text_choice:
            yield from self._press(Action.A)
            yield from self._press(Action.NOP)
        yield from self._read()

    def _wait(self, macro: macros.Wait) -> Steps:
        yield from self._pause(macro.steps)

    def _attack(self, macro: macros.Attack) -> Steps:
        self._fighting = True
        if self._view().blade is None:
            raise _Aborted(Abort.INVALID)
        while True:
            yield from self._settle()
            state = self.scene.state
            if not state.enemies:
                return
            if state.health <= LOW_HEALTH:
                raise _Aborted(Abort.DAMAGE)
            foe = min(state.enemies, key=lambda foe: abs(foe.y - state.y) + abs(foe.x - state.x))
            yield from self._close_in(foe)

    def _close_in(self, foe: game.Enemy) -> Steps:
        """A strike where the blade reaches, else a step nearer."""
        state, view = self.scene.state, self._view()
        down, right = foe.y - state.y, foe.x - state.x
        across, along = sorted((abs(down), abs(right)))
        way = _way(down, right)
        if along <= _REACH and across <= _ACROSS:
            if _FACING[state.direction] is not way:
                yield from self._press(_ACTIONS[way])
            yield from self._press(Action[view.blade or "A"])
            yield from self._pause(3)
            return
        goal = min(foe.y // TILE, view.room.height - 1), min(foe.x // TILE, view.room.width - 1)
        if view.hero == goal or find_path(view.still, view.hero, [goal]) is None:
            yield from self._press(Action.NOP if across > _ACROSS and along <= _REACH else _ACTIONS[way])
        else:
            yield from self._step_towards(view, [goal], moving=True)

    def _exit(self, macro: macros.Exit) -> Steps:
        self._leaving = True
        way = macros.HEADINGS[macro.direction]
        here = self._place()
        exits = self._view().exits(way)
        if not exits:
            raise _Aborted(Abort.NO_PATH)
        yield from self._walk(exits)
        began = self._frames
        while self._place() == here:
            if self._frames - began > _STUCK_FRAMES:
                raise _Aborted(Abort.NO_PROGRESS)
            yield from self._press(_ACTIONS[way])
        yield from self._settle()

    # Moving

    def _walk(self, goals: Collection[Place]) -> Steps:
        """Walk to the middle of one of `goals`, looking for the way anew at every step."""
        here = self._place()
        last, since = (-1, -1), 0
        while True:
            yield from self._settle()
            if self._place() != here:
                return
            state, view = self.scene.state, self._view()
            if view.hero in goals and _off_middle(self, view.hero) <= NEAR:
                return
            since = self._frames if (state.y, state.x) != last else since
            if self._frames - since > _STUCK_FRAMES:
                raise _Aborted(Abort.NO_PROGRESS)
            last = state.y, state.x
            yield from self._step_towards(view, goals)

    def _step_towards(self, view: View, goals: Collection[Place], moving: bool = False) -> Steps:
        """One step on the way to the nearest goal, in the middle of the lane; enemies are walked round."""
        doors = view.doors - set(goals)
        here = view.hero
        free = replace(view.room, blocked=(view.room.blocked - view.doors) | doors)
        path = None if moving else find_path(free, here, goals)
        if path is None:
            path = find_path(replace(view.room, blocked=doors), here, goals)
        if path is None:
            raise _Aborted(Abort.NO_PATH)
        down, right = self._offset(here)
        if not path:
            way = _way(down, right)
        elif path[0].value[0] and abs(right) > _LANE:
            way = Direction.RIGHT if right > 0 else Direction.LEFT
        elif path[0].value[1] and abs(down) > _LANE:
            way = Direction.DOWN if down > 0 else Direction.UP
        else:
            way = path[0]
        yield from self._press(_ACTIONS[way])

    def _face(self, way: Direction) -> Steps:
        for _ in range(8):
            if _FACING[self.scene.state.direction] is way:
                return
            yield from self._press(_ACTIONS[way])
        raise _Aborted(Abort.NO_PROGRESS)

    def _offset(self, place: Place) -> tuple[int, int]:
        """Pixels down and right from the hero to the middle of a cell."""
        state = self.scene.state
        return place[0] * TILE + TILE // 2 - state.y, place[1] * TILE + TILE // 2 - state.x

    # Waiting

    def _settle(self) -> Steps:
        """Until the hero can act: text is read, what moves by itself is waited for."""
        began = self._frames
        while not _calm(self.scene.state):
            if self.scene.state.text_choice or self._frames - began > _SETTLE_FRAMES:
                raise _Aborted(Abort.LOST_CONTROL)
            yield from self._press(Action.A if self._talking() else Action.NOP)
            yield from self._press(Action.NOP)

    def _read(self) -> Steps:
        """To the end of the text or to a question."""
        while not _calm(self.scene.state) and not self.scene.state.text_choice:
            yield from self._press(Action.A if self._talking() else Action.NOP)
            yield from self._press(Action.NOP)

    def _pause(self, parts: int) -> Steps:
        """So many times `PART_FRAMES` frames."""
        until = self._frames + parts * PART_FRAMES
        while self._frames < until:
            yield from self._press(Action.NOP)

    def _press(self, action: Action) -> Steps:
        """One button, and whether the plan still holds after it."""
        self.scene = yield action
        self._frames += self._tick
        state = self.scene.state
        if state.dying or state.game_over or (state.health < self._health and not self._fighting):
            raise _Aborted(Abort.DAMAGE)
        if self._place() != self._room and not self._leaving:
            raise _Aborted(Abort.ROOM_CHANGED)
        if self._frames > self._deadline:
            raise _Aborted(Abort.TIMEOUT)

    # State

    def _begin(self, name: str) -> None:
        self._deadline = self._frames + _FRAMES[name]
        self._health = self.scene.state.health
        self._room = self._place()
        self._leaving = self._fighting = False

    def _view(self) -> View:
        return view_of(self.scene, self._profile)

    def _place(self) -> tuple[int, int]:
        return self.scene.state.group, self.scene.state.room

    def _talking(self) -> bool:
        return self.scene.state.text_index is not None


_MACROS: dict[type, Callable[..., Steps]] = {
    macros.MoveTo: Executor._move_to,
    macros.PushBlock: Executor._push_block,
    macros.UseItem: Executor._use_item,
    macros.Talk: Executor._talk,
    macros.Choose: Executor._choose,
    macros.Wait: Executor._wait,
    macros.Attack: Executor._attack,
    macros.Exit: Executor._exit,
}
_ACTIONS = {
    Direction.UP: Action.UP,
    Direction.DOWN: Action.DOWN,
    Direction.LEFT: Action.LEFT,
    Direction.RIGHT: Action.RIGHT,
}
_FACING = {
    game.Facing.UP: Direction.UP,
    game.Facing.DOWN: Direction.DOWN,
    game.Facing.LEFT: Direction.LEFT,
    game.Facing.RIGHT: Direction.RIGHT,
}


def _calm(state: game.GameState) -> bool:
    """In control, in normal play, and nothing under way."""
    return state.has_control and state.hero_state == 1 and not state.transition


def _off_middle(executor: Executor, place: Place) -> int:
    down, right = executor._offset(place)
    return max(abs(down), abs(right))


def _way(down: int, right: int) -> Direction:
    if abs(down) > abs(right):
        return Direction.DOWN if down > 0 else Direction.UP
    return Direction.RIGHT if right > 0 else Direction.LEFT
