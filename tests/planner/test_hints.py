"""Hints: when they are asked for, what becomes of answers, and the embedded planner's own."""

import logging
from collections import Counter
from concurrent.futures import Future

import numpy as np
import pytest

from questloop.game.profiles.mossgrove import PROFILE
from questloop.llm.reply import ChatError, ChatFailure
from questloop.planner import embedded
from questloop.planner.client import EmbeddedPlanner, RemotePlanner
from questloop.planner.hint import Hint, cell_of, parse_hint, request
from questloop.planner.hints import Hints
from questloop.planner.plan import InvalidPlan
from questloop.planner.room import Direction, Room
from questloop.planner.view import View
from questloop.serving.server import LocalServer
from questloop.settings import LLMSettings

EXIT_DOWN = {"target": {"to": "exit", "direction": "down"}}


class Aimed:
    """Targets that remember what they were pointed at."""

    def __init__(self):
        self.counts, self.aims = Counter(), []

    def aim(self, slot, place, y, x, edge=-1):
        self.aims.append((slot, place, y, x, edge))


class Adviser:
    """A fake planner: answers with a document, an error, or never."""

    def __init__(self, answer=None, sees=False):
        self.answer, self.sees, self.asked = answer, sees, []

    def hint(self, document, picture=None):
        self.asked.append((document, picture))
        future = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif self.answer is not None:
            future.set_result(parse_hint(self.answer))
        return future

    def close(self):
        pass


@pytest.fixture
def game(table, found):
    table.set_up(found["room 4:11"], 0)
    table.targets = Aimed()
    table.rooms_beside = np.array([[False, True, False, False]])
    return table


def play(game, hints, steps):
    action, mode = np.full(1, 7, np.uint8), np.zeros(1, np.uint8)
    mask = np.ones(1, np.bool_)
    for _ in range(steps):
        hints.act(action, mask, mode)
        game.step(7)


def test_a_hint_is_asked_for_every_interval_and_points_the_target(game, caplog):
    adviser = Adviser(EXIT_DOWN)
    hints = Hints(game, adviser, 10)
    with caplog.at_level(logging.INFO, "questloop.planner.hints"):
        play(game, hints, 25)
    assert len(adviser.asked) == 3
    document, picture = adviser.asked[0]
    assert (document["mode"], document["visited"]) == ("hint", ["right"])
    assert document["next"] == "Woke the Morning Light"
    assert picture is None
    assert game.targets.aims[0] == (0, 4 << 8 | 0x11, 7 * 16 + 8, 4 * 16 + 8, 2)
    assert "direction='down'" in caplog.text
    game.targets.counts["reached"] = 2
    report = hints.report()
    assert report.outcomes == {"given": 3, "reached": 2}
    assert len(report.waits) == 3
    assert hints.report().outcomes == {}


def test_a_planner_that_sees_is_shown_the_screen(game):
    adviser = Adviser(EXIT_DOWN, sees=True)
    play(game, Hints(game, adviser, 10), 1)
    assert adviser.asked[0][1].shape == (144, 160, 3)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (InvalidPlan("target: missing"), "invalid"),
        (ChatError(ChatFailure.UNREACHABLE, "down"), "unavailable"),
        ({"target": None}, "none"),
        ({"target": {"to": "exit", "direction": "up"}}, "invalid"),  # a wall
        ({"target": {"to": "cell", "row": 10, "column": 14}}, "invalid"),  # outside
    ],
)
def test_an_answer_without_a_target_changes_nothing(game, answer, outcome):
    hints = Hints(game, Adviser(answer), 10)
    play(game, hints, 1)
    assert hints.report().outcomes == {outcome: 1}
    assert game.targets.aims == []


def test_the_game_plays_on_while_the_planner_thinks_and_late_answers_are_dropped(game):
    adviser = Adviser()
    hints = Hints(game, adviser, 10)
    before = game.batch.taps.copy()
    play(game, hints, 30)
    assert len(adviser.asked) == 1  # one at a time
    assert (game.batch.taps != before).any()
    hints.ended(np.array([0]))
    assert hints.report().outcomes == {"late": 1}
    play(game, hints, 1)
    assert len(adviser.asked) == 2
    state = hints.state_dict()
    assert hints.report().outcomes == {"late": 1}
    hints.load_state_dict(state)
    play(game, hints, 9)
    assert len(adviser.asked) == 2


def test_the_embedded_planner_gives_the_same_hint_over_http(game):
    document = request(game.scene, PROFILE, [False] * 4)
    here = EmbeddedPlanner().hint(document).result()
    with LocalServer() as server:
        remote = RemotePlanner(LLMSettings(), server.url)
        there = remote.hint(document, np.zeros((144, 160, 3), np.uint8)).result(60)
        remote.close()
    assert isinstance(here, Hint)
    assert there == here


@pytest.mark.parametrize(
    ("room", "lists", "visited", "target"),
    [
        (["...", "...", "#.#"], {"chests": {(0, 2)}}, [], {"to": "cell", "row": 0, "column": 2}),
        (["#.#", "#.#", "#.#"], {}, ["down"], {"to": "exit", "direction": "up"}),
        (["###", "#..", "###"], {"doors": {(1, 2)}}, ["right"], {"to": "cell", "row": 1, "column": 2}),
        (["#.#", "#.#", "#.#"], {}, ["down", "up"], {"to": "exit", "direction": "up"}),
        (["###", "#.#", "###"], {}, [], None),
    ],
)
def test_the_rules_go_for_chests_then_new_rooms_then_doors(room, lists, visited, target):
    view = View(
        Room(Room.parse("\n".join(room)).cells, blocked=frozenset(lists.get("doors", ()))),
        hero=(1, 1) if room[0] != "#.#" else (2, 1),
        **{name: frozenset(places) for name, places in lists.items()},
    )
    answer = embedded.answer({"mode": "hint", "view": view.to_json(), "visited": visited})
    assert answer["target"] == target
    assert parse_hint(answer)


@pytest.mark.parametrize(
    "document",
    [{}, {"target": {}}, {"target": {"to": "moon"}}, {"target": {"to": "cell", "row": -1, "column": 0}}, []],
)
def test_what_is_no_hint_is_refused_in_one_line(document):
    with pytest.raises(InvalidPlan) as caught:
        parse_hint(document)
    assert "\n" not in str(caught.value)


def test_where_the_hero_stands_already_is_no_target():
    view = View(Room.parse("...\n..."), hero=(0, 0))
    near, far = ({"to": "cell", "row": 0, "column": column} for column in (1, 2))
    assert cell_of(parse_hint({"target": near}).target, view) is None
    assert cell_of(parse_hint({"target": far}).target, view) == (0, 2)
    assert view.exits(Direction.DOWN) == [(1, 0), (1, 1), (1, 2)]
