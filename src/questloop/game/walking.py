"""Measures how far it is on foot from one place of a room to another, over the room's metatiles.

A room is its collision table and the numbers of its metatiles. Walking onto a free metatile costs 1; what
can be opened or moved on the way (a bush, a block) costs a little more, what hurts (a pit) much more, and a
wall so much that a route leads through one only where nothing else leads on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from questloop.game.columns import ROOM_COLS, ROOM_ROWS
from questloop.game.guide import Side, Tile
from questloop.game.terrain import LAYOUT_TAP, MODE_TAP, Terrain

if TYPE_CHECKING:
    from questloop.game.emulator import Emulator
    from questloop.game.profile import Profile

OPENED, HURTS, CLOSED = 3.0, 15.0, 60.0
"""Cost of walking onto what can be opened or pushed, onto what hurts, and through a wall, in metatiles."""

_FARTHEST = np.float32(1e6)

SIDES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Columns and rows moved by a step up, right, down and left."""


@dataclass(frozen=True)
class Walk:
    """Where to, from every metatile of a room; arrays [176] over the rows of the collision table.

    `distance`: f32, cost of the way to the target, 1 per free metatile,
    a million outside the room. `step`: i8, the `Side` of the next step
    on it, -1 on the target. `solid`: whether that step leads onto something that is not walked on as it is: a
    thing to use, a bush to cut, a lock.
    """

    distance: NDArray[np.float32]
    step: NDArray[np.int8]
    solid: NDArray[np.bool_]


def walk_to_tile(costs: Costs, tile: Tile) -> Walk:
    """The way to a thing: up to `tile`, whether it can be stood on or not."""
    column, row = tile
    return _search(costs, [(0.0, row * ROOM_COLS + column, -1)])


def walk_over(costs: Costs, side: Side, size: Tile, tile: Tile | None = None) -> Walk:
    """The way over the edge `side` of a room of `size` columns and rows, or over its `tile` alone."""
    columns, rows = size
    if tile is not None:
        edge = [tile]
    elif side in (Side.UP, Side.DOWN):
        edge = [(column, 0 if side is Side.UP else rows - 1) for column in range(columns)]
    else:
        edge = [(0 if side is Side.LEFT else columns - 1, row) for row in range(rows)]
    open_ones = [place for place in edge if costs.price[place[1] * ROOM_COLS + place[0]] < HURTS]
    ends = [(1.0, row * ROOM_COLS + column, int(side)) for column, row in open_ones or edge]
    return _search(costs, ends)


@dataclass(frozen=True)
class Ground:
    """What a room's metatiles are made of: their numbers, 176 bytes row by row, and its collision mode.

    `layout` is empty where the game does not tell.
    """

    layout: bytes = b""
    mode: int = 0


def ground_of(emulator: Emulator, profile: Profile) -> Ground:
    """The ground of the room that is played."""
    if profile.room_taps is None:
        return Ground()
    found = emulator.look(profile.room_taps)
    return Ground(found.get(LAYOUT_TAP, b""), found.get(MODE_TAP, b"\0")[0])


@dataclass(frozen=True)
class Costs:
    """Cost f32 [176] of walking onto each metatile, infinite outside the room, and `ledges` i8 [176]: the
    one `Side` in which a ledge is jumped, -1 where there is none."""

    price: NDArray[np.float32]
    ledges: NDArray[np.int8]


def cell_costs(collisions: NDArray[np.uint8], ground: Ground, terrain: Terrain, large: bool) -> Costs:
    """What walking costs in a room.

    Args:
        collisions: u8 [11, 16], low nibble: solid quarters.
        ground: of the room.
        terrain: what the numbers of its metatiles mean.
        large: 15 x 11 metatiles in place of 10 x 8.
    """
    solid = (collisions.ravel() & 15) != 0
    price = np.where(solid, np.float32(CLOSED), np.float32(1))
    ledges = np.full(price.shape, -1, np.int8)
    if ground.layout:
        kinds = terrain.of(ground.mode)
        numbers = np.frombuffer(ground.layout, np.uint8)[: ROOM_ROWS * ROOM_COLS]
        price[np.isin(numbers, list(kinds.bushes | kinds.blocks | kinds.pushable.keys()))] = OPENED
        price[np.isin(numbers, list(kinds.pits | kinds.spikes))] = HURTS
        price[np.isin(numbers, list(kinds.water | kinds.lava))] = CLOSED
        for side in Side:
            here = np.isin(numbers, list(getattr(kinds, f"ledges_{side.name.lower()}")))
            ledges[here], price[here] = side, 1
    columns, rows = room_size(large)
    inside = np.zeros((ROOM_ROWS, ROOM_COLS), np.bool_)
    inside[:rows, :columns] = True
    price[~inside.ravel()] = np.inf
    return Costs(price, ledges)


def room_size(large: bool) -> Tile:
    """Columns and rows of a room."""
    return (15, 11) if large else (10, 8)


def _search(costs: Costs, ends: Iterable[tuple[float, int, int]]) -> Walk:
    """Dijkstra's search backwards from `ends` (cost, metatile, step)."""
    price, ledges = costs.price.tolist(), costs.ledges.tolist()
    distance = [float("inf")] * len(price)
    step = [-1] * len(price)
    queue = []
    for cost, cell, way in ends:
        distance[cell], step[cell] = cost, way
        queue.append((cost, cell))
    heapq.heapify(queue)
    targets = {cell for _, cell in queue}
    while queue:
        cost, cell = heapq.heappop(queue)
        if cost > distance[cell]:
            continue
        for way, before in _BEFORE[cell]:
            if price[before] == float("inf"):
                continue
            entering = 1.0 if cell in targets else price[cell]
            if ledges[cell] not in (-1, way) or ledges[before] not in (-1, way):
                entering = CLOSED
            if cost + entering < distance[before]:
                distance[before], step[before] = cost + entering, way
                heapq.heappush(queue, (cost + entering, before))
    far = np.minimum(np.array(distance, np.float32), _FARTHEST)
    steps = np.array(step, np.int8)
    return Walk(far, steps, _solid_ahead(costs.price, steps))


def _cells_before() -> list[list[tuple[int, int]]]:
    """For each metatile those beside it, each with the side over which it is left for this one."""
    found: list[list[tuple[int, int]]] = []
    for cell in range(ROOM_ROWS * ROOM_COLS):
        row, column = divmod(cell, ROOM_COLS)
        places = [(way, row - down, column - right) for way, (right, down) in enumerate(SIDES)]
        found.append(
            [(way, y * ROOM_COLS + x) for way, y, x in places if 0 <= y < ROOM_ROWS and 0 <= x < ROOM_COLS]
        )
    return found


_BEFORE = _cells_before()


def _solid_ahead(price: NDArray[np.float32], step: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Whether the next step of each metatile leads onto one that is not free; over an edge nothing does."""
    rows, columns = np.divmod(np.arange(ROOM_ROWS * ROOM_COLS), ROOM_COLS)
    ways = np.array(SIDES)[step.clip(0)]
    ahead_row, ahead_column = rows + ways[:, 1], columns + ways[:, 0]
    inside = (ahead_row >= 0) & (ahead_row < ROOM_ROWS) & (ahead_column >= 0) & (ahead_column < ROOM_COLS)
    ahead = np.where(inside, ahead_row * ROOM_COLS + ahead_column, 0)
    found: NDArray[np.bool_] = inside & (step >= 0) & (price[ahead] > 1) & np.isfinite(price[ahead])
    return found
