"""Which episodes are held out together."""

import numpy as np
import pytest

from questloop.reward_model.folds import same_play, split


def play(seed, points=8):
    return np.random.default_rng(seed).normal(size=(points, 3)).astype(np.float32)


def grouped(*segments):
    """Groups of episodes, one segment each."""
    parts = np.stack(segments), np.arange(len(segments))
    return same_play(parts, episodes=len(segments)).tolist()


def test_different_play_is_of_different_groups_and_equal_play_of_one():
    one, two, three, again = grouped(play(0), play(1), play(2), play(0))
    assert len({one, two, three}) == 3
    assert again == one


def test_a_common_start_joins_no_episodes():
    """All episodes begin in the same state, and some stand there for long."""
    start = play(9)[0]
    segments = [play(n) for n in range(4)]
    for segment in segments:
        segment[0] = start
    still = np.repeat(start[None], 8, axis=0)
    assert len(set(grouped(*segments, still))) == 5


@pytest.mark.parametrize(("shared", "one"), [(8, True), (4, True), (3, False), (1, False)])
def test_half_of_the_play_joins_wherever_it_stands(shared, one):
    other = play(1)
    other[:shared] = play(0)[:shared]
    other = np.roll(other, 3, axis=0)
    first, second = grouped(play(0), other)
    assert (first == second) == one


def test_equal_ends_join():
    other = play(1)
    other[[0, -1]] = play(0)[[0, -1]]
    first, second = grouped(play(0), other)
    assert first == second


def test_groups_join_through_others_and_through_segments_of_one_episode():
    points = np.stack([play(0), play(1), play(1), play(2), play(2), play(3)])
    episode = np.array([0, 0, 1, 1, 2, 3])
    groups = same_play((points, episode), episodes=5)
    assert len(set(groups[:3].tolist())) == 1
    assert len(set(groups.tolist())) == 3


def test_minus_zero_is_zero():
    flat = np.zeros((8, 3), np.float32)
    assert len(set(grouped(flat, -flat))) == 1


def test_a_large_group_is_dealt_first_and_the_others_even_it_out():
    groups = np.array([0] * 6 + list(range(1, 25)))
    fold = split(groups, 5, np.random.default_rng(0))
    assert len(set(fold[:6].tolist())) == 1
    assert np.bincount(fold).tolist() == [6] * 5
