"""Macros on the real game, and plans that make no sense."""

import random

import pytest

from questloop.game.actions import Action
from questloop.game.profiles.mossgrove import PROFILE
from questloop.planner.executor import LOW_HEALTH, Abort, Executor
from questloop.planner.plan import HEADINGS, MAX_MACROS, parse_plan
from questloop.planner.view import view_of


def play(table, *macros, most_steps=4000):
    """Play macros on a table to their end; the result."""
    running = Executor(parse_plan({"macros": list(macros)}), table.scene, PROFILE).run()
    try:
        action = next(running)
        for _ in range(most_steps):
            table.step(action)
            action = running.send(table.scene)
    except StopIteration as over:
        return over.value
    raise AssertionError("the plan does not end")


@pytest.fixture
def stone_room(table, found):
    table.set_up(found["room 4:11"], 0)
    return table


def move_to(row, column):
    return {"do": "MOVE_TO", "row": row, "column": column}


def push(row, column, direction):
    return {"do": "PUSH_BLOCK", "row": row, "column": column, "direction": direction}


def test_move_to_ends_in_the_middle_of_the_cell(stone_room):
    assert play(stone_room, {"do": "ATTACK"}, move_to(6, 2), move_to(5, 7)).abort is None
    state = stone_room.scene.state
    assert view_of(stone_room.scene, PROFILE).hero == (5, 7)
    assert abs(state.x - (7 * 16 + 8)) <= 4
    assert abs(state.y - (5 * 16 + 8)) <= 4


@pytest.mark.parametrize(
    ("macro", "reason"),
    [
        (move_to(0, 0), Abort.NO_PATH),
        (move_to(10, 14), Abort.INVALID),
        (push(6, 2, "up"), Abort.REFUSED_PUSH),
        (push(5, 4, "right"), Abort.REFUSED_PUSH),  # it could never come back from the wall
        ({"do": "TALK", "row": 6, "column": 2}, Abort.INVALID),
        ({"do": "CHOOSE", "option": 0}, Abort.INVALID),
        ({"do": "EXIT", "direction": "up"}, Abort.NO_PATH),
    ],
)
def test_what_cannot_be_done_is_aborted_with_its_reason(stone_room, macro, reason):
    play(stone_room, {"do": "ATTACK"})
    if reason is Abort.REFUSED_PUSH and macro["direction"] == "right":
        for column in (4, 5, 6):
            assert play(stone_room, push(5, column, "right")).abort is None
        macro = push(5, 7, "right")
    assert play(stone_room, macro).abort is reason


@pytest.mark.parametrize(("macro", "hurts"), [(move_to(2, 2), True), ({"do": "ATTACK"}, False)])
def test_damage_aborts_a_walk_but_not_a_fight(stone_room, macro, hurts):
    running = Executor(parse_plan({"macros": [macro]}), stone_room.scene, PROFILE).run()
    action = next(running)
    health = stone_room.scene.state.health
    stone_room.batch.emulators[0].poke(0xC6A2, bytes([health - 2]))
    stone_room.step(action)
    if not hurts:
        assert running.send(stone_room.scene) in list(Action)
        return
    with pytest.raises(StopIteration) as over:
        running.send(stone_room.scene)
    assert over.value.value.abort is Abort.DAMAGE


def test_no_fight_goes_on_with_one_heart_left(table, found):
    table.set_up(found["room 4:22"], 0)
    table.batch.emulators[0].poke(0xC6A2, bytes([LOW_HEALTH]))
    table.step(Action.NOP)
    assert play(table, {"do": "ATTACK"}).abort is Abort.DAMAGE


def test_a_room_change_is_planned_by_exit_alone(stone_room):
    left = play(stone_room, {"do": "EXIT", "direction": "down"})
    assert left.abort is None
    assert stone_room.scene.state.room == 0x21
    assert play(stone_room, {"do": "EXIT", "direction": "up"}).abort is None
    assert stone_room.scene.state.room == 0x11


def test_a_sign_is_read_to_its_end(stone_room):
    assert play(stone_room, {"do": "ATTACK"}, {"do": "TALK", "row": 1, "column": 6}).abort is None
    assert stone_room.scene.state.has_control


@pytest.mark.parametrize("option", [0, 1])
def test_a_question_gets_the_answer_that_was_chosen(table, found, option):
    table.set_up(found["text 1f"], 0)  # Brack offers the shield
    before = table.scene.state
    assert play(table, {"do": "CHOOSE", "option": option}).abort is None
    after = table.scene.state
    assert after.has_control
    assert (after.shield_level > before.shield_level) == (option == 0)


def random_macro(rng):
    place = {"row": rng.randrange(11), "column": rng.randrange(15)}
    way = rng.choice(list(HEADINGS))
    return rng.choice(
        [
            {"do": "MOVE_TO", **place},
            {"do": "PUSH_BLOCK", **place, "direction": way},
            {"do": "USE_ITEM", "button": rng.choice("AB"), "direction": rng.choice([way, None])},
            {"do": "TALK", **place},
            {"do": "CHOOSE", "option": rng.randrange(4)},
            {"do": "WAIT", "steps": rng.randrange(1, 20)},
            {"do": "ATTACK"},
            {"do": "EXIT", "direction": way},
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_fuzzed_plans_end_with_a_reason_and_leave_the_game_playable(table, found, seed):
    rng = random.Random(seed)
    trials = list(found.values())
    for _ in range(12):
        table.set_up(rng.choice(trials), 0)
        wanted = [random_macro(rng) for _ in range(rng.choice([1, 3, MAX_MACROS]))]
        result = play(table, *wanted, most_steps=30_000)
        assert result.abort in [None, *Abort]
        assert (result.abort is None) == (result.macros == len(wanted))
        for step in range(600):  # whoever presses A now and then gets control back
            if table.scene.state.has_control:
                break
            table.step(Action.NOP if step % 2 else Action.A)
        assert table.scene.state.has_control
