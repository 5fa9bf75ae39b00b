"""When start states advance."""

import json
from collections import Counter

import numpy as np
import pytest

from questloop.errors import BadDataError
from questloop.exploration.curriculum import Curriculum

STARTS = ("start", "sword", "key", "essence")


def played(curriculum, reached, total):
    """Record `total` episodes from the newest start, the last `reached` of them successful."""
    return [
        curriculum.record(
            curriculum.starts[curriculum.stage], {curriculum.goal} if index >= total - reached else set()
        )
        for index in range(total)
    ]


def test_a_stage_advances_at_40_percent_of_20_episodes():
    curriculum = Curriculum(STARTS)
    assert curriculum.goal == "sword"
    assert played(curriculum, 8, 20) == [False] * 19 + [True]
    assert (curriculum.stage, curriculum.goal) == (1, "key")


@pytest.mark.parametrize(("reached", "total"), [(7, 20), (19, 19), (0, 300)])
def test_fewer_successes_or_episodes_do_not_advance(reached, total):
    curriculum = Curriculum(STARTS)
    assert not any(played(curriculum, reached, total))
    assert curriculum.stage == 0


def test_early_failures_are_forgotten():
    curriculum = Curriculum(STARTS)
    played(curriculum, 0, 500)
    assert played(curriculum, 8, 8)[-1]


def test_a_stage_begins_with_no_episodes():
    curriculum = Curriculum(STARTS)
    played(curriculum, 20, 20)
    assert not any(played(curriculum, 19, 19))


def test_episodes_from_other_starts_do_not_count():
    curriculum = Curriculum(STARTS)
    played(curriculum, 20, 20)
    assert not any(curriculum.record("start", {"key"}) for _ in range(100))


def test_a_milestone_that_was_passed_by_does_not_hold_the_stage_up():
    curriculum = Curriculum(STARTS)
    assert [curriculum.record("start", {"key"}) for _ in range(20)][-1]
    assert curriculum.goal == "key"


def test_milestones_before_the_stage_do_not_count():
    curriculum = Curriculum(STARTS)
    played(curriculum, 20, 20)
    assert not any(curriculum.record("sword", {"start", "sword"}) for _ in range(100))


def test_the_last_start_has_no_goal_and_stays():
    curriculum = Curriculum(("start", "sword"))
    played(curriculum, 20, 20)
    assert curriculum.goal is None
    assert not any(played(curriculum, 40, 40))


def test_the_stage_s_start_is_chosen_in_over_half_of_the_episodes_and_all_others_go_on():
    curriculum, rng = Curriculum(STARTS), np.random.default_rng(0)
    curriculum.stage = 2
    drawn = Counter(curriculum.choose(rng) for _ in range(3000))
    assert set(drawn) == set(STARTS)
    assert drawn[STARTS[2]] / 3000 == pytest.approx(0.5 + 0.5 / len(STARTS), abs=0.04)
    assert drawn[STARTS[-1]] / 3000 == pytest.approx(0.5 / len(STARTS), abs=0.03)


def test_a_curriculum_goes_on_where_it_stood():
    curriculum = Curriculum(STARTS)
    played(curriculum, 20, 20)
    played(curriculum, 3, 12)
    document = json.loads(json.dumps(curriculum.to_json()))
    again = Curriculum.load(document, STARTS)
    assert again.to_json() == curriculum.to_json()
    assert played(again, 5, 8)[-1]


def test_other_start_states_are_refused_with_both_lists():
    with pytest.raises(BadDataError, match="start, sword, key, essence, now there are start, shield"):
        Curriculum.load(Curriculum(STARTS).to_json(), ("start", "shield"))
