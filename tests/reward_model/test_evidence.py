"""Trust in a potential from what happened: by hand, and its interval."""

import numpy as np
import pytest

from questloop.reward_model.evidence import EACH, EpisodeStates, episode_states, trust

RNG = np.random.default_rng(0)


def of(stage, milestones=("a", "b"), episode="e"):
    return EpisodeStates(episode, np.zeros((len(stage), 2), np.float32), np.array(stage), milestones)


def measured(*pairs):
    """Trust of (stages, values) of episodes."""
    evidence, values = zip(*((of(stage), np.array(value, float)) for stage, value in pairs), strict=True)
    return trust(evidence, values, RNG)


def test_pairs_of_two_stages_by_hand():
    got = measured(([0, 0, 1, 2], [3.0, 1.0, 2.0, 2.0]))
    # (3,2) wrong, (1,2) right, (3,2) wrong, (1,2) right, (2,2) half
    assert got.value == pytest.approx(2.5 / 5)
    assert got.milestones == {"a": pytest.approx(0.5), "b": pytest.approx(0.5)}


def test_an_episode_counts_once_however_many_pairs_it_has():
    assert measured(([0] * 20 + [1] * 20, range(40)), ([0, 1], [1, 0])).value == pytest.approx(0.5)


@pytest.mark.parametrize(("episodes", "trusted"), [(1, False), (2, False), (5, False), (6, True), (40, True)])
def test_a_few_episodes_are_no_proof(episodes, trusted):
    got = measured(*[([0, 1], [0, 1])] * episodes)
    assert got.value == 1
    assert (got.low > 0.5) == trusted


def test_nothing_is_not_known():
    got = trust([], [], RNG)
    assert np.isnan([got.value, got.low, got.high]).all()
    assert got.episodes == 0


def test_the_interval_holds_chance_for_nearly_every_coin():
    rng, out = np.random.default_rng(1), 0
    for _ in range(200):
        out += measured(*(([0, 0, 1, 1], rng.normal(size=4)) for _ in range(12))).low > 0.5
    assert out <= 10


def test_states_of_an_episode_stand_for_its_stages_in_order():
    obs = np.arange(100, dtype=np.float32)[:, None]
    states = episode_states("e", np.arange(100), obs, {"late": 60, "early": 10, "with early": 10})
    assert states.milestones == ("early", "with early", "late")
    assert np.unique(states.stage).tolist() == [0, 2, 3]
    assert [np.sum(states.stage == each) for each in (0, 2, 3)] == [EACH] * 3
    assert states.observations[states.stage == 0, 0].max() == 9
    assert states.observations[states.stage == 2, 0].min() == 10  # the step that reached it is after it


@pytest.mark.parametrize("milestones", [{}, {"before": 2}, {"after": 90}])
def test_an_episode_without_both_sides_tells_nothing(milestones):
    assert episode_states("e", np.arange(5, 50), np.zeros((45, 3), np.float32), milestones) is None


def test_an_episode_without_exported_steps_tells_nothing():
    assert episode_states("e", np.zeros(0, np.int64), np.zeros((0, 3), np.float32), {"a": 1}) is None
