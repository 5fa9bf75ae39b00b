"""Shortest paths in a room."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from questloop.planner.room import Direction, Place, Room, distance

_LEDGE_REACH = 1  # a step may cross ledge cells, so distance / longest step is what stays admissible


def find_path(room: Room, start: Place, goals: Collection[Place]) -> list[Direction] | None:
    """A shortest walk from `start` to the nearest of `goals` (Hart, Nilsson, Raphael 1968), or None.

    Every step costs 1, also one that jumps a ledge and so covers several cells; the Manhattan distance is
    divided by the longest such step of the room, which keeps the heuristic admissible and consistent.
    `start` may stand on a place that is not open (the hero on a stair); goals must be open.
    """
    targets = [goal for goal in goals if goal == start or room.open(goal)]
    if not targets:
        return None
    reach = _longest_step(room)
    return _search(
        room, start, set(targets), lambda place: min(distance(place, goal) for goal in targets) / reach
    )


def reachable(room: Room, start: Place) -> set[Place]:
    """Every place a walk from `start` can reach, `start` among them."""
    seen, frontier = {start}, [start]
    while frontier:
        for _, place in room.moves(frontier.pop()):
            if place not in seen:
                seen.add(place)
                frontier.append(place)
    return seen


def _search(
    room: Room, start: Place, goals: set[Place], estimate: Callable[[Place], float]
) -> list[Direction] | None:
    cost = {start: 0}
    came: dict[Place, tuple[Place, Direction]] = {}
    frontier = [(estimate(start), 0, start)]
    done: set[Place] = set()
    while frontier:
        _, so_far, place = heapq.heappop(frontier)
        if place in goals:
            return _unwind(came, place)
        if place in done:
            continue
        done.add(place)
        for direction, target in room.moves(place):
            if so_far + 1 < cost.get(target, 1 << 30):
                cost[target] = so_far + 1
                came[target] = place, direction
                heapq.heappush(frontier, (so_far + 1 + estimate(target), so_far + 1, target))
    return None


def _unwind(came: dict[Place, tuple[Place, Direction]], place: Place) -> list[Direction]:
    path = []
    while place in came:
        place, direction = came[place]
        path.append(direction)
    return path[::-1]


def _longest_step(room: Room) -> int:
    """Cells that one step can cover at most: a jump over ledges, or a fall."""
    if room.gravity:
        return max(room.height, room.width)
    longest = 0
    for lines in (room.cells, tuple(zip(*room.cells, strict=True))):
        for line in lines:
            run = 0
            for cell in line:
                run = run + 1 if cell.ledge is not None else 0
                longest = max(longest, run)
    if longest and room.deep_ledges:
        return max(room.height, room.width)
    return longest + _LEDGE_REACH
