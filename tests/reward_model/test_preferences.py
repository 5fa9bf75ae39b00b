"""Which segments are compared, and how surely."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.errors import BadDataError
from questloop.reward_model.folds import split
from questloop.reward_model.measures import accuracy
from questloop.reward_model.preferences import (
    POINTS,
    Preferences,
    ScoredSegment,
    pool,
    preferences,
)


def segment(score=0.5, length=300, episode="e", spread=0.0, outcome=None):
    return ScoredSegment(episode, np.zeros((length, 4), np.float32), score, spread, outcome)


def made(*segments, limit=1000, seed=0):
    data = pool(segments)
    return preferences(data, np.arange(len(data)), np.random.default_rng(seed), limit)


def test_a_pool_keeps_the_ends_and_points_between():
    obs = np.arange(300, dtype=np.float32)[:, None]
    data = pool([ScoredSegment("e", obs, 0.5, 0.1, 2.0), ScoredSegment("f", obs[:3], 0.5)])
    assert data.points.shape == (2, POINTS, 1)
    assert data.points[0, [0, -1], 0].tolist() == [0, 299]
    assert np.unique(data.points[1]).tolist() == [0, 1, 2]
    assert data.length.tolist() == [300, 3]
    assert data.outcome[0] == 2
    assert np.isnan(data.outcome[1])


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (ScoredSegment("e7", np.zeros((0, 4), np.float32), 0.5), "e7 has no observations"),
        (ScoredSegment("e7", np.full((3, 4), np.nan, np.float32), 0.5), "e7.*not finite"),
        (segment(score=float("nan"), episode="e7"), "e7.*not finite"),
        (segment(spread=float("inf"), episode="e7"), "e7.*not finite"),
    ],
)
def test_a_segment_that_cannot_be_used_is_named(bad, says):
    with pytest.raises(BadDataError, match=says):
        pool([segment(), bad])


def test_no_segments_at_all_is_an_error_that_says_what_to_run():
    with pytest.raises(BadDataError, match="questloop evaluate"):
        pool([])


def test_labels_and_weights_are_those_of_the_formula():
    pairs = made(segment(0.2, spread=0.1), segment(0.8, spread=0.1))
    assert len(pairs) == 1
    better = pairs.label[0] if pairs.a[0] == 1 else 1 - pairs.label[0]
    assert better == pytest.approx(1 / (1 + np.exp(-2)))  # scores 2 deviations apart
    assert pairs.weight[0] == pytest.approx(0.01 / 0.03)


def test_the_scale_of_the_scores_does_not_matter():
    narrow = made(*(segment(0.50 + 0.01 * i) for i in range(5)))
    wide = made(*(segment(0.1 + 0.2 * i) for i in range(5)))
    np.testing.assert_allclose(narrow.label, wide.label, rtol=1e-5)


def test_ties_are_kept():
    pairs = made(segment(0.5), segment(0.5), segment(0.9))
    assert sorted(np.round(pairs.label, 3) == 0.5) == [False, False, True]


def test_equal_scores_everywhere_are_all_ties():
    assert (made(*(segment(0.5) for _ in range(10))).label == 0.5).all()


def test_every_pair_stands_once_and_the_better_side_is_no_hint():
    pairs = made(*(segment(i / 40) for i in range(40)))
    assert len({frozenset(pair) for pair in zip(pairs.a.tolist(), pairs.b.tolist(), strict=True)}) == 780
    assert 0.4 < (pairs.label > 0.5).mean() < 0.6


@pytest.mark.parametrize("n", [40, 1200])
def test_there_are_no_more_pairs_than_the_limit(n):
    pairs = made(*(segment(i / n) for i in range(n)), limit=500)
    assert len(pairs) == 500
    assert (pairs.a != pairs.b).all()


@given(st.integers(1, 30), st.integers(0, 2**31))
@settings(max_examples=40)
def test_a_group_of_episodes_is_in_one_fold_and_folds_hold_equally_many(episodes, seed):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, episodes, episodes)
    fold = split(group, 5, rng)
    assert len({*zip(group.tolist(), fold.tolist(), strict=True)}) == len(np.unique(group))
    counts = np.bincount(fold, minlength=5)
    assert counts.max() - counts.min() <= np.bincount(group).max()


@pytest.mark.parametrize("lengths", ["mostly whole", "all lengths", "score is the length"])
def test_length_alone_tells_nothing(lengths):
    """Scores that rise with length: a classifier given only the lengths stays near chance."""
    rng = np.random.default_rng(0)
    length = rng.integers(1, 301, 400)
    if lengths == "mostly whole":
        length[rng.random(400) < 0.8] = 300
    noise = 0 if lengths == "score is the length" else 0.1
    score = np.clip(length / 300 + rng.normal(0, noise or 1e-9, 400), 0, 1)
    data = pool(
        segment(float(s), int(n), f"e{i % 20}") for i, (s, n) in enumerate(zip(score, length, strict=True))
    )
    pairs = preferences(data, np.arange(400), rng)
    if lengths == "score is the length":
        assert (pairs.label == 0.5).all()
        return
    longer = accuracy(length.astype(np.float64), pairs, data.episode, np.zeros(400, np.int64), rng)
    assert longer.value == pytest.approx(0.5, abs=0.02)
    ratio = length[pairs.a] / length[pairs.b]
    assert ((ratio >= 0.9) & (ratio <= 1 / 0.9)).all()
    assert _table(length, pairs, rng) < 0.6


def _table(length, pairs, rng):
    """Held-out accuracy of the best lookup by both lengths (tenths), trained on half of the pairs."""
    decided = pairs[pairs.label != 0.5]
    cell = length[decided.a] // 30 * 11 + length[decided.b] // 30
    right = np.sign(decided.label - 0.5)
    half = rng.random(len(decided)) < 0.5
    vote = np.zeros(122)
    np.add.at(vote, cell[half], right[half])
    return np.mean((np.sign(vote[cell[~half]]) * right[~half] + 1) / 2)


def test_joined_preferences_are_one_after_the_other_and_none_are_none():
    first, second = made(segment(0.1), segment(0.2)), made(segment(0.3), segment(0.9))
    both = Preferences.joined([first, second])
    assert both.label.tolist() == [*first.label, *second.label]
    assert len(Preferences.joined([])) == 0
