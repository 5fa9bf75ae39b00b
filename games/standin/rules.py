"""The rules of walking and pushing on raw metatiles, said once more: the yardstick of the planner.

A room is its metatiles and collision bytes, row by row, 10 x 8 or 15 x 11; places are (row, column).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from . import facts

WAYS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
Place = tuple[int, int]


@dataclass(frozen=True)
class Rules:
    """A room. `bracelet`: whether pots can be pushed."""

    mode: int
    group: int
    tiles: tuple[tuple[int, ...], ...]
    collisions: tuple[tuple[int, ...], ...]
    bracelet: bool = False

    def kind(self, place: Place) -> str:
        return facts.kind_of(self.mode, self.tiles[place[0]][place[1]])

    def inside(self, place: Place) -> bool:
        return 0 <= place[0] < len(self.tiles) and 0 <= place[1] < len(self.tiles[0])

    def free(self, place: Place) -> bool:
        """Whether the hero may come here at all. Ladders are open whatever their collision byte."""
        if not self.inside(place):
            return False
        kind = self.kind(place)
        if kind in (*facts.HAZARDS, "spike", "warp"):  # a warp leads elsewhere
            return False
        return kind == "ladder" or facts.passable(self.collisions[place[0]][place[1]])

    def wall(self, place: Place) -> bool:
        """Whether what is here is solid and no cliff to jump from, block or hazard."""
        kind = self.kind(place)
        if kind.startswith("cliff") or kind in (*facts.HAZARDS, "spike") or self.pushes(place):
            return False
        return not facts.passable(self.collisions[place[0]][place[1]])

    def step(self, place: Place, way: str) -> Place | None:
        """Where one step ends."""
        if self.mode == facts.SIDE:
            return self._beside(place, way)
        target = _next(place, way)
        if not self.inside(target) or self.kind(target) != f"cliff {way}":
            return target if self.free(target) else None
        while self.inside(target) and (self.kind(target) == f"cliff {way}" or self.wall(target)):
            target = _next(target, way)
        return target if self.free(target) else None

    def pushes(self, place: Place) -> tuple[str, ...]:
        """The ways that what stands here can be pushed, if there is room."""
        if self.mode == facts.OVERWORLD and self.group not in (0, 1):
            return ()
        if self.mode in (facts.INDOORS, facts.DUNGEON) and self.group not in (3, 4, 5):
            return ()
        kind = self.kind(place)
        if kind in ("block", "block once", "ice block") or (kind == "pot" and self.bracelet):
            return tuple(WAYS)
        return (kind.removeprefix("block "),) if kind.startswith("block ") else ()

    def pushed(self, place: Place, way: str) -> Rules | None:
        """The room after a push; None where there is no room for it."""
        if way not in self.pushes(place) or not self.free(_next(place, way)):
            return None
        end = _next(place, way)
        while self.kind(place) == "ice block" and self.free(_next(end, way)):
            end = _next(end, way)
        tile = self.tiles[place[0]][place[1]]
        leaves, becomes = facts.AFTER_PUSH[tile]
        changed = self._put(place, leaves, 0)
        return changed._put(end, becomes, 0x0F)

    def _put(self, place: Place, tile: int, collision: int) -> Rules:
        return Rules(
            self.mode,
            self.group,
            _with(self.tiles, place, tile),
            _with(self.collisions, place, collision),
            self.bracelet,
        )

    def _beside(self, place: Place, way: str) -> Place | None:
        ladder = self.inside(place) and self.kind(place) == "ladder"
        target = _next(place, way)
        if way == "up" and not ladder:
            return None
        if way == "down" and not ladder and not (self.inside(target) and self.kind(target) == "ladder"):
            return None
        while self.free(target) and not self._stands(target):
            target = _next(target, "down")
        return target if self.free(target) else None

    def _stands(self, place: Place) -> bool:
        below = _next(place, "down")
        if self.kind(place) == "ladder":
            return True
        if not self.inside(below):
            return False
        if self.kind(below) == "ladder":
            return True
        hazard = self.kind(below) in (*facts.HAZARDS, "warp")
        return not hazard and not facts.passable(self.collisions[below[0]][below[1]])


def distances(rules: Rules, start: Place) -> dict[Place, int]:
    """Steps of a shortest walk to every place that one leads to, by breadth first (every step costs one:
    Dijkstra's algorithm)."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        place = waiting.popleft()
        for way in WAYS:
            target = rules.step(place, way)
            if target is not None and target not in found:
                found[target] = found[place] + 1
                waiting.append(target)
    return found


def shortest(rules: Rules, start: Place, goals: Collection[Place]) -> int | None:
    """Steps of a shortest walk to one of `goals`; None where none leads there."""
    found = distances(rules, start)
    return min((found[goal] for goal in goals if goal in found), default=None)


def fewest_pushes(rules: Rules, hero: Place, done) -> int | None:
    """The fewest pushes until `done(rules, hero)`, trying every single step and push (0-1 breadth first)."""
    start = (hero, rules)
    cost, waiting = {_key(start): 0}, deque([start])
    while waiting:
        here, room = waiting.popleft()
        so_far = cost[_key((here, room))]
        if done(room, here):
            return so_far
        for way in WAYS:
            ahead = _next(here, way)
            target = room.step(here, way)
            if target is not None and cost.get(_key((target, room)), 1 << 30) > so_far:
                cost[_key((target, room))] = so_far
                waiting.appendleft((target, room))
            after = room.pushed(ahead, way) if room.inside(ahead) else None
            if after is not None and cost.get(_key((here, after)), 1 << 30) > so_far + 1:
                cost[_key((here, after))] = so_far + 1
                waiting.append((here, after))
    return None


def _key(state: tuple[Place, Rules]) -> tuple[Place, tuple[tuple[int, ...], ...]]:
    return state[0], state[1].tiles


def _next(place: Place, way: str) -> Place:
    return place[0] + WAYS[way][0], place[1] + WAYS[way][1]


def _with(grid: tuple[tuple[int, ...], ...], place: Place, value: int) -> tuple[tuple[int, ...], ...]:
    row = (*grid[place[0]][: place[1]], value, *grid[place[0]][place[1] + 1 :])
    return (*grid[: place[0]], row, *grid[place[0] + 1 :])
