"""Generated rooms of every collision mode of Oracle of Seasons: the planner's search against plain rules.

Rooms are memory images of the stand-in, of no commercial game; the yardsticks work on raw metatiles.
"""

import random

import pytest
from tests.standin import facts, images, rules, view_of_image

from questloop.planner.blocks import dislodge, free, solve
from questloop.planner.paths import find_path, reachable
from questloop.planner.room import Direction
from questloop.planner.view import View

ROOMS = [pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)]), 100]
MODES = range(len(facts.MODES))
WAYS = {way.name.lower(): way for way in Direction}
WITH_BLOCKS = (facts.OVERWORLD, facts.INDOORS, facts.DUNGEON)


@pytest.mark.parametrize("mode", MODES, ids=facts.MODES)
@pytest.mark.parametrize("rooms", ROOMS)
def test_a_star_equals_dijkstra_on_raw_metatiles(mode, rooms):
    rng = random.Random(mode)
    found = far = 0
    for _ in range(rooms):
        made = images.random_rules(rng, mode)
        start, *goals = rng.sample([place for place in images.places(made) if made.free(place)], 3)
        room = view_of_image(images.image(made, start)).still
        path = find_path(room, start, goals)
        assert (len(path) if path is not None else None) == rules.shortest(made, start, goals)
        if path is not None:
            place = start
            for way in path:
                place = made.step(place, way.name.lower())
            assert place in goals
            found, far = found + 1, far + (len(path) > 3)
    assert found > rooms / 10
    assert far > rooms / 20


@pytest.mark.parametrize("mode", MODES, ids=facts.MODES)
def test_every_single_step_is_that_of_the_rules(mode):
    rng = random.Random(100 + mode)
    for _ in range(20):
        made = images.random_rules(rng, mode)
        room = view_of_image(images.image(made, (1, 1))).still
        for place in images.places(made):
            assert room.open(place) == (made.free(place) and not made.pushes(place)), place
            if room.open(place):
                for name, way in WAYS.items():
                    assert room.step(place, way) == made.step(place, name), (place, name)


def block_kinds(mode: int) -> list[tuple[str, ...]]:
    """Kinds of blocks to try: one of each, and all together."""
    kinds = [kind for kind in facts.TILES[mode] if "block" in kind or kind == "pot"]
    return [*((kind,) for kind in kinds), tuple(kinds)] if kinds else []


def replayed(made, hero, pushes, view: View):
    """The rules after these pushes, each from a place that the hero walks to."""
    room, here = view.still, hero
    for push in pushes:
        assert find_path(room, here, [push.stand]) is not None
        assert rules.shortest(made, here, [push.stand]) is not None
        made = made.pushed(push.block, push.direction.name.lower())
        room, here = room.pushed(push.block, push.direction), push.stand
        assert reachable(room, here) == set(rules.distances(made, here))
    return made, here


@pytest.mark.parametrize("mode", WITH_BLOCKS, ids=[facts.MODES[mode] for mode in WITH_BLOCKS])
@pytest.mark.parametrize("rooms", ROOMS)
def test_the_block_search_equals_brute_force(mode, rooms):
    rng = random.Random(mode)
    kinds = block_kinds(mode)
    solved = 0
    for number in range(rooms):
        made, hero = images.random_puzzle(rng, mode, kinds[number % len(kinds)], rng.randint(1, 2))
        view = view_of_image(images.image(made, hero, C694=0x40))
        blocks = sorted(view.room.blocks)
        inner = [place for place in images.places(made) if made.free(place) and place != hero]
        target = rng.choice(inner)
        block = rng.choice(blocks)

        def held(now, here, target=target):
            return bool(now.pushes(target)) or now.wall(target)

        def moved(now, here, block=block, tile=made.tiles[block[0]][block[1]]):
            return now.tiles[block[0]][block[1]] != tile

        for plan, done in (
            (solve(view.still, hero, [target]), held),
            (dislodge(view.still, hero, block), moved),
            (free(view.still, hero, [target]), lambda room, here, target=target: here == target),
        ):
            fewest = rules.fewest_pushes(made, hero, done)
            assert (len(plan) if plan is not None else None) == fewest
            if plan:
                solved += 1
                after, here = replayed(made, hero, plan, view)
                assert rules.fewest_pushes(after, here, done) == 0
    assert solved > rooms / 5


@pytest.mark.parametrize("mode", sorted(set(MODES) - set(WITH_BLOCKS)))
@pytest.mark.parametrize("rooms", ROOMS)
def test_rooms_without_blocks_have_none_for_either(mode, rooms):
    rng = random.Random(mode)
    for _ in range(rooms):
        made = images.random_rules(rng, mode)
        start, target = rng.sample([place for place in images.places(made) if made.free(place)], 2)
        room = view_of_image(images.image(made, start)).still
        assert not room.blocks
        assert not any(made.pushes(place) for place in images.places(made))
        assert solve(room, start, [target]) is None
        reached = rules.shortest(made, start, [target]) is not None
        assert free(room, start, [target]) == ([] if reached else None)
