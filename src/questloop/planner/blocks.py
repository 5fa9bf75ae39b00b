"""Pushing blocks to where they belong: a search over pushes, as in Sokoban."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count

from questloop.planner.paths import reachable
from questloop.planner.room import Cell, Direction, Place, Room, neighbour

_State = tuple[frozenset[Place], frozenset[Place]]  # blocks, and the region that the hero can walk


@dataclass(frozen=True)
class Push:
    """Stand behind `block` and push it one cell."""

    block: Place
    direction: Direction

    @property
    def stand(self) -> Place:
        """Where the hero stands to push."""
        return neighbour(self.block, self.direction.opposite)

    @property
    def lands(self) -> Place:
        """Where the block comes to rest."""
        return neighbour(self.block, self.direction)


def solve(
    room: Room, hero: Place, targets: Collection[Place], most_states: int = 200_000
) -> list[Push] | None:
    """The fewest pushes after which every target holds a block, or None where there is no way.

    A* over (blocks, region of the hero), so that a solution is found whenever one exists within
    `most_states`. Blocks move over floor only; the hero needs a walk to the side that is pushed.
    """
    return _search(room, hero, frozenset(targets), most_states)[0]


def locks(room: Room, hero: Place, push: Push, targets: Collection[Place], most_states: int = 3_000) -> bool:
    """Whether `push` would make the puzzle unsolvable: the executor refuses such a push.

    A search that finds no answer within `most_states` says no.
    """
    moved = replace(room, blocks=room.blocks - {push.block} | {push.lands})
    pushes, complete = _search(moved, push.block, frozenset(targets), most_states)
    return pushes is None and complete


def pushes(room: Room, region: Collection[Place]) -> list[Push]:
    """Every push that a hero who can walk all of `region` can make, in a fixed order."""
    return [
        push
        for block in sorted(room.blocks)
        for direction in Direction
        if (push := Push(block, direction)).stand in region and room.open(push.lands)
    ]


def _search(
    room: Room, hero: Place, goal: frozenset[Place], most_states: int
) -> tuple[list[Push] | None, bool]:
    """The pushes, and whether the search went through all there is."""
    if not goal or len(goal) > len(room.blocks):
        return ([] if goal <= room.blocks else None), True
    start: _State = room.blocks, frozenset(reachable(room, hero))
    came: dict[_State, tuple[_State, Push] | None] = {start: None}
    cost = {start: 0}
    order = count()
    frontier = [(_distance(room.blocks, goal), next(order), start)]
    while frontier and len(came) <= most_states:
        state = heappop(frontier)[2]
        blocks, region = state
        if goal <= blocks:
            return _unwind(came, state), True
        for push in pushes(replace(room, blocks=blocks), region):
            moved = blocks - {push.block} | {push.lands}
            if _dead(room, push.lands, moved, goal):
                continue
            after = moved, frozenset(reachable(replace(room, blocks=moved), push.block))
            if cost[state] + 1 < cost.get(after, most_states):
                cost[after] = cost[state] + 1
                came[after] = state, push
                heappush(frontier, (cost[after] + _distance(moved, goal), next(order), after))
    return None, not frontier


def _distance(blocks: frozenset[Place], goal: frozenset[Place]) -> int:
    """Pushes that are needed at least: a push moves one block by one cell."""
    return max(min(abs(r - row) + abs(c - column) for r, c in blocks) for row, column in goal)


def _dead(room: Room, block: Place, blocks: frozenset[Place], goal: frozenset[Place]) -> bool:
    """A block in a corner of walls stays there for good; fatal only if too few others are left."""
    if block in goal:
        return False
    free = len([b for b in blocks if b in goal or not _cornered(room, b)])
    return free < len(goal)


def _cornered(room: Room, place: Place) -> bool:
    def solid(direction: Direction) -> bool:
        beside = neighbour(place, direction)
        return not room.inside(beside) or room.cell(beside) is not Cell.FLOOR

    vertical = solid(Direction.UP) or solid(Direction.DOWN)
    return vertical and (solid(Direction.LEFT) or solid(Direction.RIGHT))


def _unwind(came: dict[_State, tuple[_State, Push] | None], state: _State) -> list[Push]:
    path = []
    while (step := came[state]) is not None:
        state, push = step
        path.append(push)
    return path[::-1]
