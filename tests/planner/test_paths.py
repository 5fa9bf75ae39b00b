"""A* against Dijkstra, ledges as directed edges, and block puzzles against brute force."""

import random
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.planner.blocks import Push, dislodge, free, locks, solve
from questloop.planner.paths import find_path, reachable
from questloop.planner.room import Cell, Direction, Room, neighbour

CELLS = [Cell.FLOOR] * 16 + [Cell.WALL] * 3 + list(Cell)


def random_room(rng: random.Random, height: int = 8, width: int = 10) -> Room:
    return Room(tuple(tuple(rng.choice(CELLS) for _ in range(width)) for _ in range(height)))


def walk(room, place, path):
    for direction in path:
        place = room.step(place, direction)
        assert place is not None, "a path steps only where the room allows"
    return place


def dijkstra(room, start, goals):
    """Steps to the nearest of `goals`; every step costs one, so the queue is in order of the costs."""
    cost, waiting = {start: 0}, deque([start])
    while waiting:
        place = waiting.popleft()
        if place in goals:
            return cost[place]
        for _, target in room.moves(place):
            if target not in cost:
                cost[target] = cost[place] + 1
                waiting.append(target)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_star_equals_dijkstra_in_rooms_with_ledges(rooms):
    rng = random.Random(0)
    found = 0
    for _ in range(rooms):
        room = random_room(rng)
        start = rng.randrange(room.height), rng.randrange(room.width)
        goals = [(rng.randrange(room.height), rng.randrange(room.width)) for _ in range(rng.randint(1, 2))]
        path, yardstick = find_path(room, start, goals), dijkstra(room, start, goals)
        assert (path is None) == (yardstick is None)
        if path is not None and yardstick is not None:
            assert len(path) == yardstick
            assert walk(room, start, path) in goals
            found += len(path) > 1
    assert found > rooms / 5, "the rooms must offer real walks"


def test_a_ledge_is_crossed_one_way_only():
    room = Room.parse(
        """
        . . .
        v v v
        . . .
        """
    )
    assert find_path(room, (0, 1), [(2, 1)]) == [Direction.DOWN]
    assert find_path(room, (2, 1), [(0, 1)]) is None


def test_goal_in_a_wall_outside_or_absent_is_no_path():
    room = Room.parse(".#.")
    assert find_path(room, (0, 0), [(0, 1)]) is None
    assert find_path(room, (0, 0), [(5, 5)]) is None
    assert find_path(room, (0, 0), []) is None
    assert find_path(room, (0, 0), [(0, 0)]) == []


def test_a_room_survives_its_text():
    room = Room.parse("..B\n#o~")
    assert Room.parse(room.text()) == room
    assert room.text(hero=(0, 0)).startswith("@")


@given(st.integers(0, 2**32))
def test_reachable_is_what_paths_find(seed):
    rng = random.Random(seed)
    room = random_room(rng, 4, 5)
    start = rng.randrange(4), rng.randrange(5)
    for row in range(4):
        for column in range(5):
            assert ((row, column) in reachable(room, start)) == (
                find_path(room, start, [(row, column)]) is not None
            )


def brute_force(room: Room, hero, targets) -> bool:
    """Whether the puzzle can be solved, searching single steps of the hero."""
    seen, frontier = {(hero, room.blocks)}, deque([(hero, room.blocks)])
    while frontier:
        place, blocks = frontier.popleft()
        if set(targets) <= blocks:
            return True
        here = Room(room.cells, blocks)
        for direction in Direction:
            ahead = neighbour(place, direction)
            step = here.step(place, direction)
            if ahead in blocks and here.open(neighbour(ahead, direction)):
                after = ahead, blocks - {ahead} | {neighbour(ahead, direction)}
            elif step is not None:
                after = step, blocks
            else:
                continue
            if after not in seen:
                seen.add(after)
                frontier.append(after)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [60, pytest.param(400, marks=pytest.mark.long)])
def test_a_solution_is_found_whenever_brute_force_finds_one(rooms):
    rng = random.Random(1)
    solved = 0
    for _ in range(rooms):
        cells = tuple(
            tuple(rng.choice([Cell.FLOOR] * 9 + [Cell.WALL, Cell.LEDGE_DOWN]) for _ in range(5))
            for _ in range(5)
        )
        floor = [(r, c) for r in range(5) for c in range(5) if cells[r][c] is Cell.FLOOR]
        count = rng.randint(1, 2)
        if len(floor) < 2 * count + 1:
            continue
        places = rng.sample(floor, 2 * count + 1)
        room, hero, targets = Room(cells, frozenset(places[:count])), places[-1], places[count : 2 * count]
        plan = solve(room, hero, targets)
        assert (plan is not None) == brute_force(room, hero, targets)
        if plan is not None:
            solved += 1
            replay(room, hero, plan, targets)
    assert solved > 0.15 * rooms


def replay(room, hero, plan, targets):
    for push in plan:
        path = find_path(room, hero, [push.stand])
        assert path is not None
        assert not locks(room, hero, push, targets)
        room = Room(room.cells, room.blocks - {push.block} | {push.lands})
        hero = push.block
    assert set(targets) <= room.blocks


def test_a_push_into_a_corner_is_refused():
    room = Room.parse(
        """
        . . .
        . B .
        . . .
        """
    )
    assert solve(room, (2, 1), [(0, 1)]) == [Push((1, 1), Direction.UP)]
    assert not locks(room, (2, 1), Push((1, 1), Direction.UP), [(0, 1)])
    assert locks(room, (1, 2), Push((1, 1), Direction.LEFT), [(1, 2)])


def test_a_block_of_one_push_stays_where_it_is_put():
    room = Room.parse("....\n.B..\n....")
    once = replace(room, once=frozenset({((1, 1), Direction.RIGHT)}))
    assert solve(once, (0, 0), [(1, 2)]) == [Push((1, 1), Direction.RIGHT)]
    assert solve(once, (0, 0), [(1, 3)]) is None
    assert solve(once, (0, 0), [(0, 1)]) is None
    assert len(solve(room, (0, 0), [(1, 3)])) == 2


def test_a_block_that_slides_goes_on_until_something_stops_it():
    room = Room.parse("....#\nB....\n.....")
    ice = replace(room, slides=frozenset({(1, 0)}))
    assert solve(ice, (0, 0), [(1, 4)]) is None, "nobody stands beyond the edge"
    ice = replace(Room.parse("....#\n.B...\n....."), slides=frozenset({(1, 1)}))
    assert solve(ice, (0, 0), [(1, 4)]) == [Push((1, 1), Direction.RIGHT)]
    assert solve(ice, (0, 0), [(1, 2)]) is None


def test_blocks_are_moved_out_of_the_way():
    assert free(Room.parse("###\n.B.\n###"), (1, 0), [(1, 2)]) is None, "it would stay in the way"
    room = Room.parse("..#...\n..B...\n..#...")
    assert free(room, (1, 0), [(0, 5)]) == [Push((1, column), Direction.RIGHT) for column in (2, 3)]
    assert dislodge(room, (1, 0), (1, 2)) == [Push((1, 2), Direction.RIGHT)]
    assert free(room, (1, 0), [(0, 0)]) == []


def test_a_jump_down_a_cliff_goes_over_its_face():
    room = replace(Room.parse("...\nvvv\n###\n..."), deep_ledges=True)
    assert find_path(room, (0, 1), [(3, 1)]) == [Direction.DOWN]
    assert find_path(replace(room, deep_ledges=False), (0, 1), [(3, 1)]) is None


def test_seen_from_the_side_one_climbs_ladders_and_falls():
    room = replace(Room.parse("...\n.H.\n##H"), gravity=True)
    assert find_path(room, (1, 0), [(0, 1)]) == [Direction.RIGHT, Direction.UP]
    assert find_path(room, (0, 1), [(1, 0)]) == [Direction.LEFT], "it falls"
    assert find_path(room, (1, 0), [(0, 0)]) is None, "nothing holds one in the air"
