import re

import pytest

from questloop.episodes.segment import EpisodeOutcome
from questloop.fleet.models import Job
from questloop.report import words
from questloop.report.words import OUTCOMES, group_title, job_title, part_title, setting_title
from questloop.rewards.total import Rewards
from questloop.settings import GROUPS, RewardSettings

SETTINGS = [name for kind in GROUPS for name in kind.model_fields]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_a_title_that_says_what_it_is(name):
    title = setting_title(name.upper())
    assert title != name.upper()
    assert not title.startswith(("unset", "on:", "off:", "0:")), "what it is, before what a value means"


def test_every_part_of_the_reward_has_a_short_title():
    weights = {name.removeprefix("reward_") for name in RewardSettings.model_fields}
    for name in weights | set(Rewards(1, RewardSettings()).names):
        assert part_title(name) != name
        assert len(part_title(name)) <= 60
        assert "SHAPING" not in part_title(name)


def test_what_has_no_title_is_still_said():
    assert part_title("of_a_later_release") == "of a later release"
    assert setting_title("OF_A_LATER_RELEASE") == "OF_A_LATER_RELEASE"
    assert group_title("llm") == "Language models"
    assert group_title("training") == "Training"


def test_every_end_of_an_episode_has_words():
    assert set(OUTCOMES) == set(EpisodeOutcome)


def test_figures_of_judges_and_models_are_said_in_words_that_a_newcomer_reads():
    """Where a name of statistics stands, it stands in brackets, behind what it says."""
    told = [*words.JUDGE_COLUMNS.values(), *words.CHARTS.values(), *words.MODEL.values()]
    for figure in told:
        bare = re.sub(r"\(.*?\)", "", figure.title)
        for jargon in ("tau", "alpha", "Brier", "drift", "calibration", "held-out", "invalid", "correlation"):
            assert jargon not in bare, figure.title
    assert all(chart.hint for chart in words.CHARTS.values())
    assert words.unknown("tau", 1, "none").startswith("The judges' foresight (tau) is not known for epoch 1")


def test_every_field_of_a_job_has_a_title_in_words():
    for column in Job.__table__.columns:
        assert "_" not in job_title(column.key)
    assert set(words.JOBS) <= {column.key for column in Job.__table__.columns}
