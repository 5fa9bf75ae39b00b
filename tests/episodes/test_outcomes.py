import numpy as np
import pytest

from questloop.episodes.outcomes import milestone_follows


def known_outcomes(milestones, steps=2000, terminated=False):
    """Of an episode with a segment every 300 steps: whether a milestone followed, where that is known."""
    found = {
        f"s{index}": milestone_follows(300 * index + 299, milestones.values(), steps, terminated, 900)
        for index in range(steps // 300)
    }
    return {name: value for name, value in found.items() if value is not None}


def test_a_milestone_within_the_next_three_segments():
    found = known_outcomes({"sword": 1300}, steps=2400)
    assert found == {"s0": False, "s1": True, "s2": True, "s3": True, "s4": False}


@pytest.mark.parametrize(("step", "value"), [(299, False), (300, True), (1199, True), (1200, False)])
def test_the_window_begins_after_the_segment_and_ends_with_the_third(step, value):
    assert known_outcomes({"sword": step})["s0"] is value


def test_a_window_that_is_cut_short_is_unknown_unless_the_game_ended():
    assert set(known_outcomes({}, steps=1500)) == {"s0", "s1"}
    assert set(known_outcomes({"sword": 1400}, steps=1500)) == {"s0", "s1"}
    assert set(known_outcomes({}, steps=1500, terminated=True)) == {"s0", "s1", "s2", "s3", "s4"}


def test_what_nothing_follows_is_unknown():
    assert milestone_follows(299, [], 299, terminated=True, window=900) is None


def test_cutting_episodes_anywhere_leaves_the_share_of_milestones_as_it_is():
    rng = np.random.default_rng(0)
    whole, cut = [], []
    for _ in range(3000):
        steps = np.sort(rng.integers(0, 6000, 3))
        milestones = {f"m{index}": int(step) for index, step in enumerate(steps)}
        whole += known_outcomes(milestones, steps=6000).values()
        end = int(rng.integers(0, 6000))
        seen = {name: step for name, step in milestones.items() if step <= end}
        cut += known_outcomes(seen, steps=end).values()
    assert abs(np.mean(cut) - np.mean(whole)) < 0.02
