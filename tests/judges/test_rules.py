import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judges.play import line, picture, segment, state

from questloop.judges.compress import compress
from questloop.judges.contact_sheet import Picture, sheet
from questloop.judges.request import prepare
from questloop.judges.rubric import JUDGES
from questloop.judges.rules import compare, distinct_pictures, judge
from questloop.llm.routes import Role


def text(*states):
    return compress([line(step, now) for step, now in enumerate(states)]).text


IDLE = text(*[state()] * 50)
FOUND = text(*[state(pos=[16 * (i % 10), 16 * (i // 10)]) for i in range(50)], state(sword=1, keys=1))


def test_progress_is_worth_more_than_standing():
    assert judge(Role.STATE, FOUND, None)["progress"] > judge(Role.STATE, IDLE, None)["progress"] + 0.5
    assert judge(Role.STATE, FOUND, None)["efficiency"] > judge(Role.STATE, IDLE, None)["efficiency"] == 0


def test_what_was_not_there_has_no_score():
    assert judge(Role.STATE, IDLE, None)["dialog"] is None
    assert judge(Role.PUZZLE, IDLE, None)["puzzle"] is None
    opened = text(state(keys=1), state())
    assert judge(Role.PUZZLE, opened, None)["puzzle"] > 0.5


def test_talking_twice_to_the_same_person_is_worth_less():
    once = text(state(), state(text=1), state(), state())
    twice = text(state(), state(text=1), state(), state(text=1), state())
    assert judge(Role.STATE, once, None)["dialog"] > judge(Role.STATE, twice, None)["dialog"]


def test_the_vision_judge_looks_at_the_pictures():
    same = sheet([Picture(step, "", picture(1)) for step in range(6)])
    different = sheet([Picture(step, "", picture(step)) for step in range(6)])
    assert distinct_pictures(same) == (1, 6)
    assert distinct_pictures(different) == (6, 6)
    assert judge(Role.VISION, IDLE, different)["novelty"] > judge(Role.VISION, IDLE, same)["novelty"]


@pytest.mark.parametrize("role", [Role.STATE, Role.PUZZLE, Role.VISION])
@pytest.mark.parametrize("told", [IDLE, FOUND, "", text(state(health=[2, 12]), state(enemies_left=2))])
def test_a_reason_adds_up_to_its_number(role, told):
    answer = judge(role, told, None)
    said = re.search(r"overall (\d\.\d\d): log-odds (.*)$", answer["reason"])
    odds = sum(float(number) for number in re.findall(r"[+-]\d+\.\d\d", said[2]))
    assert float(said[1]) == pytest.approx(answer["overall"], abs=0.006)
    assert 1 / (1 + math.exp(-odds)) == pytest.approx(answer["overall"], abs=0.01)


def test_a_question_without_play_gets_no_credit_for_it():
    assert judge(Role.STATE, "", None)["overall"] < 0.5 < judge(Role.STATE, IDLE + FOUND, None)["overall"]


def test_a_longer_stay_is_not_better():
    short, long = text(*[state()] * 30), text(*[state()] * 300)
    assert judge(Role.STATE, long, None)["overall"] <= judge(Role.STATE, short, None)["overall"]


def test_each_role_sees_what_speaks_against_a_next_step():
    walk = [state(pos=[16 * (i % 10), 16 * (i // 10)]) for i in range(50)]
    hurt, pressed, beset = (
        text(*[now | change for now in walk])
        for change in ({"health": [2, 12]}, {"pushing": True}, {"enemies_left": 2})
    )
    whole = text(*walk)
    for worse, role in ((hurt, Role.STATE), (pressed, Role.STATE), (beset, Role.STATE), (beset, Role.PUZZLE)):
        assert judge(role, worse, None)["overall"] < judge(role, whole, None)["overall"]
    harmed = text(state(), state(health=[8, 12]))
    assert judge(Role.VISION, harmed, None)["overall"] < judge(Role.VISION, text(state()), None)["overall"]


def test_puzzle_and_vision_share_no_count():
    def moved(role, before, after):
        return judge(role, after, None)["overall"] != judge(role, before, None)["overall"]

    explored = text(state(), state(room="0:11"), state(room="0:12"))
    solved = text(state(keys=1), state())
    assert (moved(Role.PUZZLE, IDLE, explored), moved(Role.VISION, IDLE, explored)) == (False, True)
    assert (moved(Role.PUZZLE, IDLE, solved), moved(Role.VISION, IDLE, solved)) == (True, False)


def test_roles_differ_in_what_they_see():
    cases = [prepare(segment(index, seed=9)) for index in range(12)]
    overall = {
        role.name: [judge(role.role, case.text, sheet(case.pictures))["overall"] for case in cases]
        for role in JUDGES
    }
    assert len({tuple(values) for values in overall.values()}) == 3
    assert all(len(set(values)) > 1 for values in overall.values())


@given(st.text(max_size=400), st.sampled_from([Role.STATE, Role.PUZZLE, Role.VISION]), st.binary(max_size=50))
def test_any_text_and_picture_gets_scores_in_range(words, role, png):
    answer = judge(role, words, png)
    assert all(0 <= value <= 1 for value in answer.values() if isinstance(value, float))
    assert isinstance(answer["overall"], float)


def test_comparing_is_antisymmetric():
    assert compare(FOUND, IDLE)["overall"] > 0.8
    assert compare(FOUND, IDLE)["overall"] + compare(IDLE, FOUND)["overall"] == 1
    assert compare(IDLE, IDLE)["overall"] == 0.5


def test_what_scores_higher_wins_the_comparison():
    texts = [prepare(segment(index, seed=9)).text for index in range(12)]
    scores = [judge(Role.STATE, text, None)["overall"] for text in texts]
    for a, b in itertools.permutations(range(12), 2):
        if abs(scores[a] - scores[b]) > 1e-3:
            assert (compare(texts[a], texts[b])["overall"] > 0.5) == (scores[a] > scores[b])


@pytest.mark.parametrize("role", [Role.STATE, Role.PUZZLE, Role.VISION])
def test_a_reason_counts_one_thing_in_the_singular(role):
    counts = "Counts: rooms 1, tiles 1, first visits 1"
    events = "3 keys 0 > 1\n4 room cleared\n5 block pushed"
    once = f"Segment of 9 steps, 0 to 8.\n{counts}\n{events}"
    reason = judge(role, once, None)["reason"]
    assert re.search(r"\b1 \w", reason)
    assert not re.search(r"\b1 (first )?(tile|room|visit|picture|part|attempt)s\b", reason), reason
