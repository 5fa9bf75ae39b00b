"""Whole episodes by a policy that does not learn."""

import numpy as np
import pytest

from questloop.errors import UsageError
from questloop.game.guide import bundled_guide
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import load_start_states
from questloop.planner.client import EmbeddedPlanner
from questloop.rewards.aims import lead
from questloop.setting_types import AimsOf
from questloop.settings import Settings
from questloop.training.evaluation import play_episodes
from questloop.training.player import Player


def player(seed):
    """Presses all buttons alike."""
    policy = {"policy.0.weight": np.zeros((8, 128), np.float32), "policy.0.bias": np.zeros(8, np.float32)}
    return Player(policy, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def start():
    rom = Rom.load(None)
    return load_start_states(rom, profile_for(rom)).states[0]


def test_every_episode_is_played_once_and_to_its_end(start):
    game = Settings(episode_length=60, frame_skip=8).game
    played = play_episodes(player(1), game, start, episodes=3)
    assert [episode.steps for episode in played] == [60, 60, 60]
    assert all(episode.rooms >= 1 for episode in played)
    assert played == play_episodes(player(1), game, start, episodes=3)


def test_milestones_that_the_planner_reaches_are_the_episode_s(start):
    """Buttons of chance open a dialog with the elder now and then; the planner hears it out."""
    game = Settings(episode_length=400, frame_skip=4).game
    played = play_episodes(player(3), game, start, episodes=6, planner=EmbeddedPlanner())
    assert any("met_elder" in episode.milestones for episode in played)


def test_a_policy_that_judges_led_is_led_to_the_same_places(start):
    """Nothing is learned: the lead alone walks it to the left, or to the right."""
    game = Settings(episode_length=250, frame_skip=16).game
    aims = len(profile_for(Rom.load(None)).guide.aims)
    reached = []
    for place in (0x020, 0x023):
        policy = {
            "policy.0.weight": np.zeros((8, 132), np.float32),
            "policy.0.bias": np.zeros(8, np.float32),
            "lead": lead(),
        }
        led = Player(policy, np.random.default_rng(1), [place] * aims)
        played = play_episodes(led, game, start, episodes=6, planner=EmbeddedPlanner())
        reached.append(sum("sword_1" in episode.milestones for episode in played))
    assert reached[0] > reached[1], "the twig blade lies in the stump hollow"


def test_a_policy_that_was_led_needs_the_guide_of_its_training():
    guide = bundled_guide("mossgrove")
    policy = {"policy.0.weight": np.zeros((8, 132), np.float32), "policy.0.bias": np.zeros(8, np.float32)}
    rng, places = np.random.default_rng(0), [0x020] * len(guide.aims)
    assert player(3).led_by(None) is AimsOf.OFF
    assert Player(policy, rng).led_by(guide) is AimsOf.GUIDE
    assert Player(policy, rng, places).led_by(guide) is AimsOf.JUDGES
    for led, other in ((Player(policy, rng), None), (Player(policy, rng, places[1:]), guide)):
        with pytest.raises(UsageError, match="set GUIDE as it was set"):
            led.led_by(other)
