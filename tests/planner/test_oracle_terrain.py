"""The terrain of Oracle of Seasons: a case for each row of what is known of its metatiles, by collision mode.

Images are the stand-in's; its list of facts is written apart from the profile.
"""

import pytest
from tests.standin import facts, images, rules, scene_of_image, view_of_image

from questloop.game.profiles.oracle_decoder import SOLID_QUARTERS
from questloop.game.profiles.oracle_of_seasons import PROFILE
from questloop.game.terrain import PuzzleRoom, Riddle
from questloop.planner import embedded
from questloop.planner.client import Mode, request
from questloop.planner.hint import request as hint_request
from questloop.planner.room import Cell, Direction
from questloop.planner.view import View, is_puzzle_state

SPOT = (3, 4)
CELLS = {
    "hole": Cell.PIT,
    "water": Cell.WATER,
    "lava": Cell.LAVA,
    "spike": Cell.SPIKES,
    "ladder": Cell.LADDER,
    "cliff up": Cell.LEDGE_UP,
    "cliff right": Cell.LEDGE_RIGHT,
    "cliff down": Cell.LEDGE_DOWN,
    "cliff left": Cell.LEDGE_LEFT,
    "floor": Cell.FLOOR,
    "warp": Cell.FLOOR,
    "button": Cell.FLOOR,
    "pressed button": Cell.FLOOR,
    "torch": Cell.WALL,
    "lit torch": Cell.WALL,
    "switch": Cell.WALL,
    "chest": Cell.WALL,
    "open chest": Cell.WALL,
    "sign": Cell.WALL,
    "lock": Cell.WALL,
    "boss lock": Cell.WALL,
}
LISTS = {
    "torch": "torches",
    "button": "buttons",
    "switch": "switches",
    "chest": "chests",
    "sign": "signs",
    "warp": "doors",
    "lock": "locks",
    "boss lock": "boss_locks",
}
ROWS = [
    (mode, kind, tile)
    for mode, kinds in enumerate(facts.TILES)
    for kind, tiles in kinds.items()
    for tile in tiles
]


def room_with(mode, tile, collision=None, group=None):
    """A room of floor with one metatile in it."""
    floor = facts.TILES[mode]["floor"][0]
    tiles = [[floor] * 10 for _ in range(8)]
    collisions = [[0] * 10 for _ in range(8)]
    tiles[SPOT[0]][SPOT[1]] = tile
    collisions[SPOT[0]][SPOT[1]] = facts.usual_collision(mode, tile) if collision is None else collision
    group = facts.GROUP_OF_MODE[mode] if group is None else group
    return rules.Rules(mode, group, tuple(map(tuple, tiles)), tuple(map(tuple, collisions)))


def view(mode, tile, collision=None, group=None, **memory) -> View:
    return view_of_image(images.image(room_with(mode, tile, collision, group), (6, 1), **memory))


@pytest.mark.parametrize(("mode", "kind", "tile"), [row for row in ROWS if row[1] in CELLS])
def test_a_metatile_is_what_its_mode_says(mode, kind, tile):
    shown = view(mode, tile)
    assert shown.room.cell(SPOT) is CELLS[kind]
    lists = {name for name in LISTS.values() if SPOT in getattr(shown, name)}
    assert lists == ({LISTS[kind]} if kind in LISTS else set())
    assert not shown.room.blocks
    assert shown.room.cell((0, 0)) is Cell.FLOOR
    assert View.from_json(shown.to_json()) == shown


@pytest.mark.parametrize(("mode", "kind", "tile"), [row for row in ROWS if row[1] not in CELLS])
def test_a_pushable_is_pushed_as_its_mode_and_group_say(mode, kind, tile):
    shown = view(mode, tile, C694="40")
    ways = {"block up": "UP", "block right": "RIGHT", "block down": "DOWN", "block left": "LEFT"}
    allowed = {Direction[ways[kind]]} if kind in ways else set(Direction)
    assert {way for way in Direction if shown.still.can_push(SPOT, way)} == allowed
    once = facts.AFTER_PUSH[tile][1] != tile and kind != "pot"
    assert {place for place, _ in shown.room.once} == ({SPOT} if once else set())
    assert (SPOT in shown.room.slides) == (kind == "ice block")
    assert SPOT not in view(mode, tile, group=2, C694="40").room.blocks, "not in the Maku tree's group"
    assert (SPOT in view(mode, tile).room.blocks) == (kind != "pot"), "a pot wants the bracelet"
    assert View.from_json(shown.to_json()) == shown


@pytest.mark.parametrize(("tile", "cells"), [(0xD0, "...oo"), (0x54, "vv..."), (0xF4, "oo.oo")])
def test_the_same_number_means_different_things(tile, cells):
    """D0 is stairs outdoors and a hole indoors, 54 a cliff outdoors and a conveyor indoors."""
    assert "".join(view(mode, tile, 0).room.cell(SPOT).value for mode in range(5)) == cells


@pytest.mark.parametrize("byte", range(256))
def test_collision_bytes(byte):
    assert (SOLID_QUARTERS[byte] == 0) == facts.passable(byte)
    if byte < 0x10:
        assert SOLID_QUARTERS[byte] == byte
    scene = scene_of_image(images.image(room_with(facts.DUNGEON, facts.PLAIN_FLOOR, byte), (6, 1)))
    assert scene.state.solid(SPOT[1], SPOT[0]) == (not facts.passable(byte))


@pytest.mark.parametrize("byte", [0x18, 0x17, 0x1F, 0x11, 0x19, 0x10])
def test_stairs_tracks_and_bridges_are_walked_on(byte):
    assert facts.passable(byte)
    assert view(facts.DUNGEON, facts.PLAIN_FLOOR, byte).room.cell(SPOT) is Cell.FLOOR


def test_a_person_stands_where_floor_is_solid():
    assert view(facts.DUNGEON, facts.PLAIN_FLOOR, 0x0F).people == {SPOT}
    assert view(facts.DUNGEON, facts.PLAIN_WALL, 0x0F).people == set()


def state_in(room, **memory):
    made = room_with(facts.DUNGEON, facts.PLAIN_FLOOR, group=room[0])
    return scene_of_image(images.image(made, (6, 1), room=room[1], **memory))


FLAGS = (0xC700, 0xC800, 0xC800, 0xC800, 0xC900, 0xCA00, 0xC900, 0xCA00)


@pytest.mark.parametrize(("place", "puzzle"), PROFILE.terrain.puzzles.items())
def test_a_puzzle_room_is_unsolved_and_then_solved(place, puzzle: PuzzleRoom):
    flags = f"{FLAGS[place[0]] + place[1]:04X}"
    owned = {"C692": 0x20, "C6AC": 1, "C695": 0x02}  # sword and satchel
    unsolved = owned | {"CC30": 1}
    solved = {
        Riddle.BUTTON: {"CCBA": 1},
        Riddle.TORCHES: {"CCA9": puzzle.torches},
    }.get(puzzle.riddle, {"CC30": 0})
    if puzzle.solved:
        solved = {flags: puzzle.solved, "CC30": 1}
    read = lambda memory: state_in(place, **{at: f"{byte:02X}" for at, byte in memory.items()}).state  # noqa: E731
    assert is_puzzle_state(read(unsolved), PROFILE)
    assert not is_puzzle_state(read(unsolved | solved), PROFILE)
    assert puzzle.opens


def test_who_has_no_blade_or_no_seeds_is_left_alone():
    assert not is_puzzle_state(state_in((4, 0x14), CC30="01").state, PROFILE)
    assert not is_puzzle_state(state_in((4, 0x15), C692="20", C6AC="01").state, PROFILE)


def test_the_buttons_of_sword_and_satchel_are_looked_up():
    shown = view(facts.DUNGEON, 0x08, C680="05", C681="19")
    assert (shown.blade, shown.fire) == ("B", "A")
    assert View.from_json(shown.to_json()) == shown
    shown = view(facts.DUNGEON, 0x08, C680="03", C681="05")
    assert (shown.blade, shown.fire) == ("A", None)


def test_a_chest_is_opened_from_below():
    document = view(facts.DUNGEON, 0xF1).to_json()
    assert document["chests_from_below"]
    assert embedded.plan_for(View.from_json(document))["macros"] == [{"do": "TALK", "row": 3, "column": 4}]


def test_a_lock_is_a_hint_while_there_is_a_key():
    made = images.image(room_with(facts.DUNGEON, 0x70), (6, 1), C66F="01")
    document = hint_request(scene_of_image(made), PROFILE, [False] * 4)
    assert embedded.answer(document)["target"] == {"to": "cell", "row": 3, "column": 4}
    document["state"].pop("keys_here")
    assert embedded.answer(document)["target"]["to"] == "exit"


def test_the_request_carries_what_the_planner_reads():
    scene = scene_of_image(images.image(room_with(facts.DUNGEON, 0x19), (6, 1)))
    document = request(Mode.PUZZLE, scene, PROFILE)
    assert document["view"]["once"] == [[3, 4, "right"]]
    assert document["view"]["map"][3] == "....B....."
