"""From the game's memory to the planner's room."""

import sys
from pathlib import Path

import pytest

from questloop.game.profiles.mossgrove import PROFILE, TERRAIN
from questloop.game.state import state_of
from questloop.game.terrain import Riddle
from questloop.planner.room import Direction
from questloop.planner.takeover import _PuzzleTable
from questloop.planner.view import View, is_puzzle_state, view_of

GAME = Path(__file__).parents[2] / "games/mossgrove"


@pytest.fixture
def metatiles(monkeypatch):
    monkeypatch.syspath_prepend(str(GAME))
    from tools import assets

    yield assets.read_metatiles(GAME)
    for name in [name for name in sys.modules if name == "tools" or name.startswith("tools.")]:
        del sys.modules[name]


def test_the_terrain_names_the_metatiles_of_the_games_source(metatiles):
    numbers = {}
    for tile in metatiles:
        numbers.setdefault(tile.name.split("_")[0] if tile.name.startswith("path") else tile.name, set()).add(
            tile.number
        )
    for field, name in {
        "blocks": "block", "plates": "plate", "buttons": "button", "torches": "torch_off", "chests": "chest",
        "signs": "sign", "ledges_down": "ledge",
    }.items():  # fmt: skip
        assert getattr(TERRAIN, field) == numbers[name], field
    assert TERRAIN.doors == {tile.number for tile in metatiles if tile.kind == 6}
    assert TERRAIN.pits | TERRAIN.water == {tile.number for tile in metatiles if tile.kind in (1, 7)}
    assert TERRAIN.floor >= numbers["path"] | numbers["floor"] | numbers["grass"]
    assert not TERRAIN.floor & {tile.number for tile in metatiles if tile.solid}


def test_a_stone_room_shows_its_block_plate_sign_and_exits(table, found):
    table.set_up(found["room 4:11"], 0)
    view = view_of(table.scene, PROFILE)
    assert view.riddle is Riddle.BLOCK
    assert view.room.blocks == {(5, 4)}
    assert view.plates == {(3, 4)}
    assert view.signs == {(1, 6)}
    assert len(view.enemies) == 1
    assert view.hero[0] == 7
    assert view.exits(Direction.DOWN) == [(7, 4), (7, 5)]
    assert view.exits(Direction.UP) == []
    assert is_puzzle_state(table.scene.state, PROFILE)


def test_pits_and_the_button_of_the_button_room(table, found):
    table.set_up(found["room 5:32"], 0)
    view = view_of(table.scene, PROFILE)
    assert view.buttons == {(5, 7)}
    assert view.room.cell((1, 7)).value == "o"
    assert not view.room.open((1, 7))


@pytest.mark.parametrize("room", ["4:11", "4:22", "5:22", "5:30", "5:32"])
def test_a_view_survives_its_json(table, found, room):
    table.set_up(found[f"room {room}"], 0)
    view = view_of(table.scene, PROFILE)
    assert View.from_json(view.to_json()) == view


@pytest.mark.parametrize("sword", [0, 1])
@pytest.mark.parametrize("room", ["4:11", "4:22", "5:22", "5:30", "5:32"])
def test_a_takeover_looks_for_the_same_puzzle_rooms(table, found, room, sword):
    table.set_up(found[f"room {room}"], 0)
    table.columns.sword_level[0] = sword
    expected = is_puzzle_state(state_of(table.columns, 0, PROFILE), PROFILE)
    assert _PuzzleTable(PROFILE)(table.columns).tolist() == [expected]
