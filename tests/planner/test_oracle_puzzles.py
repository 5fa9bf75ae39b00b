"""The planner on the stand-in's ROM, by Oracle of Seasons' profile: its puzzle rooms, and generated ones.

The ROM is ours and no commercial game: what is shown is that profile, views, searches, executor and takeovers
fit together, not that the facts hold on the cartridge.
"""

import dataclasses
import random
from pathlib import Path

import pytest
from benchmarks.planner.trials import Table, Trial, by_planner
from tests.standin import facts, images

from questloop.game.actions import Action
from questloop.game.profiles import oracle_of_seasons
from questloop.game.rom import Rom
from questloop.game.terrain import Riddle
from questloop.planner.blocks import dislodge, free
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.modes import Mode
from questloop.planner.paths import reachable
from questloop.planner.view import view_of

PROFILE = dataclasses.replace(oracle_of_seasons.PROFILE, guide=None)
"""Without its guide: rooms are entered here that the quest's order does not lead to yet."""
ROM = Rom.load(Path(__file__).parents[2] / "games/standin/standin.gbc")
ASKED, FRAMES_OF_A_ROOM = 0xC3E5, 40
PUZZLE_ROOMS = sorted(PROFILE.terrain.puzzles)


@pytest.fixture(scope="module")
def beginning():
    from questloop.game.opening import play_opening

    return play_opening(ROM, PROFILE).state


@pytest.fixture
def table(beginning):
    table = Table(ROM, PROFILE)
    table.set_up(Trial("beginning", Mode.DIALOG, beginning), 0)
    yield table
    table.close()


def go(table, place, hero=(8, 7)):
    """Enter a room of the ROM."""
    emulator = table.batch.emulators[0]
    emulator.poke(ASKED + 1, bytes([place[1], hero[0] * 16 + 8, hero[1] * 16 + 8]))
    emulator.poke(ASKED, bytes([place[0] + 1]))
    for _ in range(FRAMES_OF_A_ROOM // 4):
        table.step(Action.NOP)
    assert (table.scene.state.group, table.scene.state.room) == place


def trial(table, name):
    return Trial(name, Mode.PUZZLE, table.batch.save(0))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("place", PUZZLE_ROOMS, ids=lambda place: f"{place[0]}:{place[1]:02x}")
def test_every_puzzle_room_of_the_profile_is_solved(table, place, seed):
    go(table, place)
    verdict = by_planner(table, trial(table, f"room {place}"), EmbeddedPlanner(), seed)
    assert verdict.solved, verdict


# Generated rooms, written into the memory of the running ROM.

KINDS = ("push", "chest", "button", "torches", "enemies")
FREED, CHEST_BEATEN, CHEST_BUTTON = 1, 2, 16
WITH_KIND = {
    "push": (4, 0x05),
    "chest": (4, 0x2D),
    "button": (4, 0x03),
    "torches": (4, 0x15),
    "enemies": (4, 0x14),
}
"""A room of each riddle, whose number the generated room takes."""


def generated(rng, kind):
    """A solvable large room of a dungeon: rules, hero, spot, what the ROM's script has to know, enemies."""
    while True:
        rows, columns = images.LARGE
        tiles = [[facts.PLAIN_WALL] * columns for _ in range(rows)]
        inner = [(row, column) for row in range(2, 9) for column in range(2, 13)]
        for row, column in inner:
            tiles[row][column] = (
                facts.PLAIN_FLOOR if rng.random() < 0.88 else rng.choice((0x80, 0x80, 0xF3, 0x61))
            )
        floor = [place for place in inner if tiles[place[0]][place[1]] == facts.PLAIN_FLOOR]
        hero, spot, *others = rng.sample(floor, 8)
        script, foes = (0, (0, 0)), []
        if kind in ("push", "chest"):
            for place in others[: rng.randint(0, 4)]:
                put_block(rng, tiles, place)
        if kind == "push":
            tiles[spot[0]][spot[1]] = rng.choice((0x18, 0x19, 0x1A, 0x1B, 0x1C))
        elif kind == "chest":
            bar_chest(rng, tiles, spot)
        elif kind == "button":
            tiles[spot[0]][spot[1]] = 0x0C
            script = (CHEST_BUTTON, others[0])
        elif kind == "torches":
            for row, column in (spot, others[0]):
                tiles[row][column] = 0x08
        else:
            foes = others[: rng.randint(1, 3)]
            script = (CHEST_BEATEN, spot)
        made = rules_of(tiles)
        if tiles[hero[0]][hero[1]] == facts.PLAIN_FLOOR and solvable(
            made, hero, kind, spot, others, script, foes
        ):
            return made, hero, kind, spot, script, foes


def put_block(rng, tiles, place):
    names = ("block", "block up", "block right", "block down", "block left", "block once")
    tiles[place[0]][place[1]] = rng.choice(facts.TILES[facts.DUNGEON][rng.choice(names)])


def bar_chest(rng, tiles, spot):
    """A chest whose place in front has walls and a block around it."""
    row, column = spot
    tiles[row][column] = 0xF1
    around = [(row + 1, column - 1), (row + 2, column), (row + 1, column + 1)]
    for place in around:
        tiles[place[0]][place[1]] = facts.PLAIN_WALL
    tiles[row + 1][column] = facts.PLAIN_FLOOR
    put_block(rng, tiles, rng.choice(around))


def rules_of(tiles):
    from games.standin.rules import Rules

    collisions = tuple(tuple(facts.usual_collision(facts.DUNGEON, tile) for tile in row) for row in tiles)
    return Rules(facts.DUNGEON, 4, tuple(map(tuple, tiles)), collisions)


def solvable(made, hero, kind, spot, others, script, foes):
    """Whether the search finds a way, by the view of the memory image."""
    from tests.standin import view_of_image

    room = view_of_image(images.image(made, hero)).still
    if kind == "push":
        return bool(dislodge(room, hero, spot, 500))
    if kind == "chest":
        return bool(free(room, hero, [below(spot)], 200))
    walked = reachable(room, hero)
    if kind == "torches":
        beside = [{(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)} for r, c in (spot, others[0])]
        return not any(walked.isdisjoint(stands) for stands in beside)
    chest = script[1]
    if below(chest) not in walked or not walked.issuperset((chest, *foes, *([spot] * (kind == "button")))):
        return False
    after = dataclasses.replace(room, blocked=frozenset({chest}))
    return reachable(after, below(chest)) == walked - {chest}  # the chest that appears must not part the room


def below(place):
    return place[0] + 1, place[1]


def write(table, made, hero, place, at, script, foes):
    """Put a generated room into the memory of the ROM, which then plays it."""
    go(table, place)
    emulator = table.batch.emulators[0]
    image = images.image(made, hero, room=place[1])
    for first in (0xCE00, 0xCF00):
        emulator.poke(first, bytes(image[first + offset] for offset in range(0xB0)))
    mask, where = script
    emulator.poke(0xC3E0, bytes([mask, where[0] << 4 | where[1], 0, 0, 0]))
    for number in range(16):
        emulator.poke(0xD080 + 0x100 * number, b"\0", bank=1)
    for number, (row, column) in enumerate(foes):
        page = 0xD080 + 0x100 * number
        emulator.poke(page, bytes([1, 0x10]), bank=1)
        for offset, value in ((0x0B, row * 16 + 8), (0x0D, column * 16 + 8), (0x29, 2)):
            emulator.poke(page + offset, bytes([value]), bank=1)
    emulator.poke(0xCC30, bytes([len(foes)]))
    for offset, value in ((0x0B, hero[0] * 16 + 8), (0x0D, hero[1] * 16 + 8)):
        emulator.poke(0xD000 + offset, bytes([value]), bank=1)
    if at is not None:  # a block to be pushed counts among the enemies
        tile = made.tiles[at[0]][at[1]]
        emulator.poke(0xC3E0, bytes([FREED, at[0] << 4 | at[1], tile, 1, 0]))
        emulator.poke(0xCC30, b"\1")
    table.step(Action.NOP)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rooms",
    [
        pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
        4,
    ],
)
def test_generated_rooms_of_each_kind_are_solved_all_of_them(table, beginning, kind, rooms):
    rng = random.Random(KINDS.index(kind))
    lost = []
    for number in range(rooms):
        table.set_up(Trial("beginning", Mode.DIALOG, beginning), 0)
        made, hero, _, spot, script, foes = generated(rng, kind)
        profile, place = profile_with(kind, spot)
        table.profile = profile
        write(table, made, hero, place, spot if kind == "push" else None, script, foes)
        assert view_of(table.scene, profile).riddle is Riddle(kind)
        verdict = by_planner(table, trial(table, f"{kind} {number}"), EmbeddedPlanner(), number)
        table.profile = PROFILE
        if not verdict.solved:
            lost.append((number, verdict))
    assert not lost


def profile_with(kind, spot):
    """The profile with the generated room in place of a real one of its kind."""
    place = WITH_KIND[kind]
    puzzle = PROFILE.terrain.puzzles[place]
    puzzle = dataclasses.replace(puzzle, at=spot if kind == "push" else None)
    terrain = dataclasses.replace(PROFILE.terrain, puzzles=PROFILE.terrain.puzzles | {place: puzzle})
    return dataclasses.replace(PROFILE, terrain=terrain), place
