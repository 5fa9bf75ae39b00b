"""What a run comes to, in sentences that say no more than its rows."""

import pytest
from tests.pipeline.test_display import row

from questloop.report.summary import furthest, judges_part, progress, sentences

TITLES = {"sword": "Took the sword", "door": "Opened the door", "end": "Woke the grove"}
SHAPED = {"shaping_weight": 0.92, "shaping_reason": "0.960 of states in the right order"}


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (2.1, 4.8, "rose from 2.10 to 4.80 between epoch 0 and epoch 7"),
        (4.8, 2.1, "fell from 4.80 to 2.10 between epoch 0 and epoch 7"),
        (2.101, 2.1, "stayed at 2.10 between epoch 0 and epoch 7"),
    ],
)
def test_progress_is_that_between_the_first_and_the_last_epoch(first, last, said):
    rows = [row(0, milestones_per_episode=first), row(3), row(7, milestones_per_episode=last)]
    assert said in progress(rows)


def test_what_was_not_measured_is_not_spoken_of():
    bare = {"milestones_per_episode": None, "trust": None}
    assert sentences([], TITLES) == []
    assert sentences([row(0), row(1, **bare)], TITLES) == [], "one epoch has no progress"
    assert judges_part([row(0, **bare), row(1, **SHAPED)]) is None, "no figure decided"


def test_the_furthest_milestone_is_the_last_of_the_game_that_either_end_reached():
    rows = [
        row(0, milestone_shares={"sword": 0.5, "door": 0.03, "end": 0.0}),
        row(1, milestone_shares={"sword": 0.1, "door": 0.1, "end": 0.1}),
        row(2, milestone_shares={"sword": 0.9, "door": 0.0, "end": 0.0}),
    ]
    said = furthest(rows, TITLES)
    assert "“Opened the door”" in said
    assert "by none of epoch 2's episodes, 3.0% of epoch 0's" in said
    assert "no episode" in furthest([row(0, milestone_shares={"sword": 0.0})], TITLES).lower()


def test_the_judges_part_says_where_they_led():
    led = row(2, **SHAPED, judged_stages=3)
    assert judges_part([row(1, trust=0.97), led]).endswith(
        "led to the places that judges scored highest at 3 stages of the quest."
    )
    assert "led to" not in judges_part([row(1, trust=0.97), row(2, **SHAPED)])


def test_the_judges_part_names_the_figure_that_decided():
    learned = row(0, trust=0.96), row(1, trust=None)
    said = judges_part([*learned, row(2, trust=0.5, **SHAPED)])
    assert "in 96.0% of the cases" in said
    assert said.endswith("shaped epoch 2 with weight 0.92.")
    off = {"shaping_weight": 0.0, "shaping_reason": "off: no reward model yet"}
    assert judges_part([row(0, **off)]) == ("The judges' scores did not shape epoch 0: no reward model yet.")


def test_judges_may_lead_where_they_do_not_shape():
    off = {"shaping_weight": 0.0, "shaping_reason": "off: SHAPING_COEF is 0"}
    assert judges_part([row(1, **off, judged_stages=1)]) == (
        "The judges' scores did not shape epoch 1: SHAPING_COEF is 0. "
        "Agents were led to the places that judges scored highest at 1 stage of the quest."
    )
