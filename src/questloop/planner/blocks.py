"""Solves block puzzles: a search over pushes, as in Sokoban."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from questloop.planner.paths import reachable
from questloop.planner.room import Cell, Direction, Place, Room, neighbour

Region = frozenset[Place]  # what the hero can walk
Goal = Callable[[Room, Region], bool]
_Key = tuple[frozenset[Place], frozenset[Place], frozenset[tuple[Place, Direction]], Region]


@dataclass(frozen=True)
class Push:
    """Stand behind `block` and push it."""

    block: Place
    direction: Direction

    @property
    def stand(self) -> Place:
        """Where the hero stands to push."""
        return neighbour(self.block, self.direction.opposite)

    @property
    def lands(self) -> Place:
        """The cell that the block is pushed into."""
        return neighbour(self.block, self.direction)


def solve(
    room: Room, hero: Place, targets: Collection[Place], most_states: int = 200_000
) -> list[Push] | None:
    """The fewest pushes after which every target holds a block, or None where there is no way.

    A* over (blocks, region of the hero), so that a solution is found whenever one exists within
    `most_states`. Blocks move over floor only; the hero needs a walk to the side that is pushed.
    """
    return _solve(room, hero, frozenset(targets), most_states)[0]


def free(room: Room, hero: Place, goals: Collection[Place], most_states: int = 200_000) -> list[Push] | None:
    """The fewest pushes after which the hero can walk to one of `goals`, or None where there is no way."""
    wanted = frozenset(goals)
    return _search(room, hero, lambda _, region: not wanted.isdisjoint(region), _nothing, most_states)[0]


def dislodge(room: Room, hero: Place, block: Place, most_states: int = 200_000) -> list[Push] | None:
    """The fewest pushes of which the last one moves `block`, or None where there is no way."""
    return _search(room, hero, lambda now, _: block not in now.blocks, _nothing, most_states)[0]


def locks(room: Room, hero: Place, push: Push, targets: Collection[Place], most_states: int = 3_000) -> bool:
    """Whether `push` would make the puzzle unsolvable: the executor refuses such a push.

    A search that finds no answer within `most_states` says no.
    """
    moved = room.pushed(push.block, push.direction)
    pushes, complete = _solve(moved, push.block, frozenset(targets), most_states)
    return pushes is None and complete


def pushes(room: Room, region: Collection[Place]) -> list[Push]:
    """Every push that a hero who can walk all of `region` can make, in a fixed order."""
    return [
        push
        for block in sorted(room.blocks)
        for direction in Direction
        if (push := Push(block, direction)).stand in region and room.can_push(block, direction)
    ]


def _solve(
    room: Room, hero: Place, targets: frozenset[Place], most_states: int
) -> tuple[list[Push] | None, bool]:
    """`solve`, and whether the search went through all there is."""
    held = room.blocks | room.spent
    if not targets or len(targets) > len(held):
        return ([] if targets <= held else None), True

    def estimate(now: Room) -> int | None:
        return None if _dead(now, targets) else _distance(now, targets)

    return _search(room, hero, lambda now, _: targets <= now.blocks | now.spent, estimate, most_states)


def _search(
    room: Room, hero: Place, goal: Goal, estimate: Callable[[Room], int | None], most_states: int
) -> tuple[list[Push] | None, bool]:
    """The pushes that lead to `goal`, and whether the search went through all there is.

    `estimate`: pushes that are needed at least; None where it is clear that no way leads on.
    """
    start = _key(room, hero)
    came: dict[_Key, tuple[_Key, Push] | None] = {start: None}
    cost = {start: 0}
    order = count()
    frontier = [(estimate(room) or 0, next(order), start, room)]
    while frontier and len(came) <= most_states:
        _, _, key, now = heappop(frontier)
        if goal(now, key[-1]):
            return _unwind(came, key), True
        for push in pushes(now, key[-1]):
            moved = now.pushed(push.block, push.direction)
            left = estimate(moved)
            if left is None:
                continue
            after = _key(moved, push.block)
            if cost[key] + 1 < cost.get(after, most_states):
                cost[after] = cost[key] + 1
                came[after] = key, push
                heappush(frontier, (cost[after] + left, next(order), after, moved))
    return None, not frontier


def _key(room: Room, hero: Place) -> _Key:
    return room.blocks, room.spent | room.slides, room.once, frozenset(reachable(room, hero))


def _nothing(room: Room) -> int:
    return 0


def _distance(room: Room, goal: frozenset[Place]) -> int:
    """Pushes that are needed at least: a push moves one block by one cell, or along a whole line."""
    held = room.blocks | room.spent
    if room.slides:
        return int(not goal <= held)
    return max(min(abs(r - row) + abs(c - column) for r, c in held) for row, column in goal)


def _dead(room: Room, goal: frozenset[Place]) -> bool:
    """A block in a corner of walls stays there for good; fatal only if too few others are left."""
    lost = {block for block in room.blocks if _cornered(room, block)} | room.spent
    return len((room.blocks | room.spent) - (lost - goal)) < len(goal)


def _cornered(room: Room, place: Place) -> bool:
    def solid(direction: Direction) -> bool:
        beside = neighbour(place, direction)
        return not room.inside(beside) or room.cell(beside) not in (Cell.FLOOR, Cell.LADDER)

    vertical = solid(Direction.UP) or solid(Direction.DOWN)
    return vertical and (solid(Direction.LEFT) or solid(Direction.RIGHT))


def _unwind(came: dict[_Key, tuple[_Key, Push] | None], key: _Key) -> list[Push]:
    path = []
    while (step := came[key]) is not None:
        key, push = step
        path.append(push)
    return path[::-1]
