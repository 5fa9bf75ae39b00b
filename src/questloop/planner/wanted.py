"""Which puzzles the quest needs: those that an aim of the game's guide lies in or behind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from questloop.game.columns import Columns
from questloop.game.guide import Aim, Guide, Side, Way
from questloop.game.profile import Profile
from questloop.game.terrain import Riddle
from questloop.planner.paths import find_path
from questloop.planner.room import Direction
from questloop.planner.view import Scene, view_of

_MOST_KEPT = 4_096

_WAYS = {
    Side.UP: Direction.UP,
    Side.RIGHT: Direction.RIGHT,
    Side.DOWN: Direction.DOWN,
    Side.LEFT: Direction.LEFT,
}


class Wanted:
    """Says of `N` games whether the riddle of the room that each is in should be solved now.

    A riddle is wanted where an aim that is open lies in its room or needs what is found there, where the way
    to the next aim is closed, and where a fight was begun. Without a guide every riddle is.
    """

    def __init__(self, num_slots: int, profile: Profile) -> None:
        self._profile = profile
        self._place = np.full(num_slots, -1, np.int32)
        self._most = np.zeros(num_slots, np.int32)  # enemies that the room had since it was entered
        self._known: dict[tuple[int, int, int, bytes], bool] = {}
        self._fights = np.zeros(8 * 256, np.bool_)
        for (group, room), puzzle in profile.terrain.puzzles.items():
            self._fights[group << 8 | room] = puzzle.riddle is Riddle.ENEMIES

    def watch(self, columns: Columns) -> NDArray[np.bool_]:
        """Whether a fight was begun, bool [N]: some of the enemies of such a room are beaten, not all."""
        entered = columns.place != self._place
        self._place = columns.place
        self._most = np.where(entered, columns.enemies, np.maximum(columns.enemies, self._most))
        begun: NDArray[np.bool_] = (
            self._fights[columns.place & 2047] & (columns.enemies > 0) & (columns.enemies < self._most)
        )
        return begun

    def forget(self, slots: NDArray[np.intp] | slice = slice(None)) -> None:
        """Begin anew in `slots`: their fights have not begun."""
        self._place[slots] = -1

    def __call__(self, columns: Columns, slot: int, scene: Callable[[], Scene]) -> bool:
        """Whether the guide asks for the riddle of this slot's room; `scene` is called where that is new."""
        guide = self._profile.guide
        if guide is None:
            return True
        at = int(columns.place[slot]), int(columns.milestones[slot]), int(columns.tile[slot])
        key = *at, columns.collisions[slot].tobytes()
        if key not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._asked(guide, scene())
        return self._known[key]

    def _asked(self, guide: Guide, scene: Scene) -> bool:
        place, done = scene.state.group << 8 | scene.state.room, set(scene.state.milestones)
        if place not in guide.names:
            return True
        here = {aim.key for aim in guide.aims if aim.place == place}
        for aim in guide.aims:
            able = aim.key not in done and done.issuperset(aim.needs)
            if able and (aim.place == place or here.intersection(aim.needs)):
                return True
        ahead = next_aim(guide, done)
        way = guide.next_way(place, ahead.place) if ahead is not None else None
        return way is not None and not self._open(scene, way)

    def _open(self, scene: Scene, way: Way) -> bool:
        """Whether the hero can walk to where `way` leaves the room."""
        view = view_of(scene, self._profile)
        tile = (way.tile[1], way.tile[0]) if way.tile is not None else None
        if way.side is None:
            goals = [] if tile is None else [tile]
            return (
                find_path(replace(view.room, blocked=view.doors - set(goals)), view.hero, goals) is not None
            )
        exits = [cell for cell in view.exits(_WAYS[way.side]) if tile in (None, cell)]
        return find_path(view.still, view.hero, exits) is not None


def next_aim(guide: Guide, done: Collection[str]) -> Aim | None:
    """The aim after the last one done; None once the last one is."""
    last = max((number for number, aim in enumerate(guide.aims) if aim.key in done), default=-1)
    return guide.aims[last + 1] if last + 1 < len(guide.aims) else None
