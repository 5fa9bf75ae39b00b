"""Ways within a room: distances against an independent search, and what they go around."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from questloop.game.guide import Side
from questloop.game.terrain import Terrain
from questloop.game.walking import (
    CLOSED,
    HURTS,
    OPENED,
    SIDES,
    Costs,
    Ground,
    Walk,
    cell_costs,
    walk_over,
    walk_to_tile,
)

TERRAIN = Terrain(
    bushes=frozenset({38}),
    blocks=frozenset({8}),
    pits=frozenset({7}),
    water=frozenset({39}),
    ledges_down=frozenset({56}),
)
NUMBERS = {".": 0, "#": 2, "b": 38, "B": 8, "o": 7, "~": 39, "v": 56}


def costs_of(text: str) -> Costs:
    """Costs of a room drawn as letters."""
    rows = text.split()
    collisions, layout = np.zeros((11, 16), np.uint8), np.zeros((11, 16), np.uint8)
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            layout[y, x] = NUMBERS[letter]
            collisions[y, x] = 15 if letter in "#bB" else 0
    return cell_costs(collisions, Ground(layout.tobytes()), TERRAIN, large=False)


def path(walk: Walk, column: int, row: int) -> list[tuple[int, int]]:
    """Metatiles from a place to the target, both included."""
    found = [(column, row)]
    while (way := int(walk.step[row * 16 + column])) >= 0 and len(found) < 200:
        column, row = column + SIDES[way][0], row + SIDES[way][1]
        if not (0 <= column < 10 and 0 <= row < 8):
            break
        found.append((column, row))
    return found


OPEN = "\n".join(["." * 10] * 8)


def test_costs_tell_what_can_be_opened_what_hurts_and_what_is_closed() -> None:
    costs = costs_of("\n".join([".#bBo~...."] + ["." * 10] * 7))
    assert costs.price[:6].tolist() == [1, CLOSED, OPENED, OPENED, HURTS, CLOSED]
    assert np.isinf(costs.price[10])


def test_a_thing_is_walked_up_to_though_it_is_solid() -> None:
    walk = walk_to_tile(costs_of(OPEN.replace(".", "#", 1)), (0, 0))
    assert walk.distance[:3].tolist() == [0, 1, 2]
    assert walk.solid[1]
    assert not walk.solid[2]


def test_a_bush_is_cut_where_the_way_round_is_longer() -> None:
    room = ["." * 10] * 3 + ["###b######"] + ["." * 10] * 4
    walk = walk_over(costs_of("\n".join(room)), Side.UP, (10, 8))
    assert (3, 3) in path(walk, 9, 7)


def test_a_pit_is_walked_around() -> None:
    room = ["." * 10] * 3 + ["ooooo....."] + ["." * 10] * 4
    walk = walk_to_tile(costs_of("\n".join(room)), (0, 0))
    assert not {(x, 3) for x in range(5)} & set(path(walk, 0, 7))


def test_over_an_edge_leads_the_nearest_opening_or_the_one_that_is_named() -> None:
    room = "\n".join(["##.####.##"] + ["." * 10] * 7)
    assert path(walk_over(costs_of(room), Side.UP, (10, 8)), 8, 4)[-1] == (7, 0)
    assert path(walk_over(costs_of(room), Side.UP, (10, 8), (2, 0)), 8, 4)[-1] == (2, 0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 7))
def test_distances_are_the_cheapest(seed: int, column: int, row: int) -> None:
    letters = np.random.default_rng(seed).choice(list("....#bo~"), (8, 10))
    costs = costs_of("\n".join("".join(line) for line in letters))
    assert walk_to_tile(costs, (column, row)).distance[_INSIDE] == pytest.approx(
        relaxed(costs.price, column, row)
    )


_INSIDE = (np.arange(8)[:, None] * 16 + np.arange(10)).ravel()


def relaxed(costs: NDArray[np.float32], column: int, row: int) -> NDArray[np.float64]:
    """Bellman and Ford: relax every edge until nothing changes."""
    price = costs.reshape(11, 16)[:8, :10].astype(float)
    price[row, column] = 1  # the target costs one step, whatever stands there
    found = np.full((8, 10), np.inf)
    found[row, column] = 0
    while True:
        around = np.pad(found + price, 1, constant_values=np.inf)
        best = np.minimum.reduce(
            [found, around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]]
        )
        best[row, column] = 0
        if (best == found).all():
            return found.ravel()
        found = best


def test_a_ledge_is_jumped_down_and_never_climbed() -> None:
    room = costs_of("\n".join(["." * 10] * 3 + ["v" * 10] + ["." * 10] * 4))
    assert walk_over(room, Side.DOWN, (10, 8)).distance[0] == 8
    assert walk_over(room, Side.UP, (10, 8)).distance[7 * 16] > CLOSED
