import numpy as np
import pytest

from questloop.episodes.outcomes import EpisodeFacts, known_outcomes


def facts(milestones, steps=2000, terminated=False):
    last_steps = {f"s{index}": 300 * index + 299 for index in range(steps // 300)}
    return EpisodeFacts(last_steps, milestones, steps, terminated)


def test_a_milestone_within_the_next_three_segments():
    found = known_outcomes([facts({"sword": 1300}, steps=2400)])
    assert found == {"s0": False, "s1": True, "s2": True, "s3": True, "s4": False}


@pytest.mark.parametrize(("step", "value"), [(299, False), (300, True), (1199, True), (1200, False)])
def test_the_window_begins_after_the_segment_and_ends_with_the_third(step, value):
    assert known_outcomes([facts({"sword": step})])["s0"] is value


def test_a_window_that_is_cut_short_is_unknown_unless_the_game_ended():
    assert set(known_outcomes([facts({}, steps=1500)])) == {"s0", "s1"}
    assert set(known_outcomes([facts({"sword": 1400}, steps=1500)])) == {"s0", "s1"}
    assert set(known_outcomes([facts({}, steps=1500, terminated=True)])) == {"s0", "s1", "s2", "s3", "s4"}


def test_what_nothing_follows_is_unknown():
    assert known_outcomes([EpisodeFacts({"s0": 299}, {}, 299, True)]) == {}


def test_cutting_episodes_anywhere_leaves_the_share_of_milestones_as_it_is():
    rng = np.random.default_rng(0)
    whole, cut = [], []
    for _ in range(3000):
        steps = np.sort(rng.integers(0, 6000, 3))
        milestones = {f"m{index}": int(step) for index, step in enumerate(steps)}
        whole += known_outcomes([facts(milestones, steps=6000)]).values()
        end = int(rng.integers(0, 6000))
        seen = {name: step for name, step in milestones.items() if step <= end}
        cut += known_outcomes([facts(seen, steps=end)]).values()
    assert abs(np.mean(cut) - np.mean(whole)) < 0.02
