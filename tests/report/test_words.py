import pytest

from questloop.episodes.segment import EpisodeOutcome
from questloop.report.words import OUTCOMES, group_title, part_title, setting_title
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
