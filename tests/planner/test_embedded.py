"""The embedded planner: every dialog and puzzle room of Mossgrove, and rooms that were generated."""

import random

import pytest
from benchmarks.planner.trials import by_planner, talks
from tests.planner.test_executor import play, push

from questloop.episodes.mode import Mode
from questloop.game.actions import Action
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.terrain import Riddle
from questloop.planner import embedded
from questloop.planner.blocks import solve
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.plan import HEADINGS, parse_plan
from questloop.planner.room import Room, neighbour
from questloop.planner.view import View, view_of

ROOMS = ["room 4:11", "room 4:22", "room 5:22", "room 5:30", "room 5:32", "room 5:20", "room 5:11"]


@pytest.mark.parametrize("name", ROOMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_puzzle_room_is_solved_from_its_entrance(skipping, found, name, seed):
    verdict = by_planner(skipping, found[name], EmbeddedPlanner(), seed)
    assert verdict.solved, verdict


def test_every_dialog_of_the_walkthrough_is_read_to_its_end(skipping, found):
    dialogs = [trial for trial in found.values() if trial.mode is Mode.DIALOG]
    assert len(dialogs) >= 12
    for trial in dialogs:
        verdict = by_planner(skipping, trial, EmbeddedPlanner(), 0)
        assert verdict.solved, (trial.name, verdict)


@pytest.mark.long
def test_everybody_who_is_met_on_the_way_is_talked_to(table):
    dialogs = talks(Rom.load(None), PROFILE)
    assert len(dialogs) >= 17
    for trial in dialogs:
        verdict = by_planner(table, trial, EmbeddedPlanner(), 0)
        assert verdict.solved, (trial.name, verdict)


def test_a_block_that_is_stuck_is_freed_by_entering_the_room_anew(table, found):
    table.set_up(found["room 4:11"], 0)
    play(table, {"do": "ATTACK"})
    for column in (4, 5, 6):
        assert play(table, push(5, column, "right")).abort is None
    table.batch.emulators[0].poke(0xCF57, b"\0")  # a wrong push that the executor would refuse
    table.batch.emulators[0].poke(0xCE57, b"\0")
    table.batch.emulators[0].poke(0xCF58, b"\x08")
    table.batch.emulators[0].poke(0xCE58, b"\x0f")
    table.step(Action.NOP)
    plan = embedded.plan_for(view_of(table.scene, PROFILE))
    assert [macro["do"] for macro in plan["macros"]] == ["EXIT", "EXIT"]
    assert play(table, *plan["macros"]).abort is None
    assert view_of(table.scene, PROFILE).room.blocks == {(5, 4)}


def generated(rng: random.Random) -> View:
    """A solvable room of 8 x 10 with walls, up to three blocks and a plate."""
    while True:
        cells = ["".join(rng.choice("......#") for _ in range(10)) for _ in range(8)]
        floor = [(r, c) for r, line in enumerate(cells) for c, letter in enumerate(line) if letter == "."]
        hero, plate, *blocks = rng.sample(floor, 2 + rng.randint(1, 3))
        room = Room(Room.parse("\n".join(cells)).cells, frozenset(blocks))
        if solve(room, hero, [plate], 2_000):
            return View(room, hero, Riddle.BLOCK, plates=frozenset({plate}))


def simulate(view: View, plan) -> View:
    """The rules of pushing, apart from the search that planned."""
    room, hero = view.room, view.hero
    for macro in parse_plan(plan).macros:
        if macro.do != "PUSH_BLOCK":
            continue
        block, way = (macro.row, macro.column), HEADINGS[macro.direction]
        assert block in room.blocks
        lands = neighbour(block, way)
        assert room.open(lands)
        room, hero = Room(room.cells, room.blocks - {block} | {lands}), block
    return View(room, hero, view.riddle, plates=view.plates)


@pytest.mark.long
def test_200_generated_rooms_are_solved_through_the_request_document():
    rng = random.Random(7)
    for _ in range(200):
        view = generated(rng)
        plan = embedded.answer({"view": view.to_json()})
        assert simulate(view, plan).plates <= simulate(view, plan).room.blocks


def test_rules_that_find_nothing_wait():
    plan = embedded.plan_for(View(Room.parse("..\n.."), (0, 0), Riddle.BUTTON))
    assert plan["macros"][0]["do"] == "WAIT"
    assert parse_plan(plan)
