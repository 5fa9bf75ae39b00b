"""Measures against hand-computed values."""

import numpy as np
import pytest

from questloop.reward_model.measures import accuracy, brier, by_outcome, calibration, drift
from questloop.reward_model.preferences import Preferences


def pairs(*rows):
    a, b, label = zip(*rows, strict=True)
    return Preferences(np.array(a), np.array(b), np.float32(label), np.ones(len(rows), np.float32))


RNG = np.random.default_rng(0)


def test_accuracy_counts_right_order_leaves_ties_out_and_halves_for_equal_values():
    value = np.array([3.0, 2.0, 1.0, 1.0])
    held_out = pairs((0, 1, 0.9), (1, 2, 0.2), (2, 3, 0.7), (0, 3, 0.5))
    got = accuracy(value, held_out, np.arange(4), np.zeros(4), RNG)
    assert got.value == pytest.approx((1 + 0 + 0.5) / 3)
    assert got.comparisons == 3
    assert got.low <= got.value <= got.high


def test_accuracy_of_nothing_is_unknown():
    assert np.isnan(accuracy(np.zeros(2), pairs((0, 1, 0.5)), np.arange(2), np.zeros(2), RNG).value)


@pytest.mark.parametrize("folds", [1, 5])
def test_the_interval_holds_chance_for_nearly_every_random_judge(folds):
    """200 unrelated rankings of 40 segments: the 95% interval leaves 0.5 out about once in 20."""
    rng = np.random.default_rng(1)
    fold = np.arange(40) % folds
    a, b = np.triu_indices(40, k=1)
    a, b = a[fold[a] == fold[b]], b[fold[a] == fold[b]]
    out = 0
    for _ in range(200):
        value, truth = rng.normal(size=(2, 40))
        held_out = Preferences(a, b, (truth[a] > truth[b]).astype(np.float32), np.ones(len(a), np.float32))
        got = accuracy(value, held_out, np.arange(40) % 20, fold, rng)
        out += not got.low <= 0.5 <= got.high
    assert out <= 20


def test_more_folds_of_the_same_comparisons_make_a_narrower_interval_than_one_of_them():
    rng = np.random.default_rng(2)
    a, b = np.triu_indices(12, k=1)
    label = np.float32(rng.random(len(a)) < 0.5)
    one = Preferences(a, b, label, np.ones(len(a), np.float32))
    five = Preferences.joined(Preferences(a + 12 * i, b + 12 * i, label, one.weight) for i in range(5))
    value = np.tile(rng.normal(size=12), 5)
    narrow = accuracy(value, five, np.arange(60), np.arange(60) // 12, rng)
    wide = accuracy(value[:12], one, np.arange(12), np.zeros(12), rng)
    assert narrow.value == pytest.approx(wide.value)
    assert narrow.high - narrow.low < 0.6 * (wide.high - wide.low)


@pytest.mark.parametrize("alike", ["one segment", "one episode", "the episodes of one kind"])
def test_what_stands_out_among_equal_labels_is_one_draw_however_often_it_is_compared(alike):
    """Scores equal but for an outlier, or alike within episodes; values at random, alike within episodes."""
    rng = np.random.default_rng(3)
    episode = np.repeat(np.arange(30), 8)
    fold = episode % 5
    a, b = np.triu_indices(240, k=1)
    a, b = a[fold[a] == fold[b]], b[fold[a] == fold[b]]
    out = 0
    for _ in range(100):
        score = np.zeros(240)
        chosen = rng.integers(30, size=1 if alike == "one episode" else 6)
        if alike == "one segment":
            score[rng.integers(240)] = 1
        else:
            score[np.isin(episode, chosen)] = 1
        value = rng.normal(size=30)[episode] + 0.3 * rng.normal(size=240)
        label = (1 + np.sign(score[a] - score[b]).astype(np.float32)) / 2
        got = accuracy(value, Preferences(a, b, label, np.ones(len(a), np.float32)), episode, fold, rng)
        out += got.low > 0.5
    assert out <= 7


def test_outcomes_are_compared_where_known_and_different():
    outcome = np.array([1.0, np.nan, 0.0, 1.0, 5.0])
    truth = by_outcome(outcome, np.array([0, 0, 0, 0, 1]))
    assert set(zip(truth.a.tolist(), truth.b.tolist(), truth.label.tolist(), strict=True)) == {
        (0, 2, 1.0),
        (2, 3, 0.0),
    }


def test_brier_and_calibration_by_hand():
    predicted, label = np.array([0.9, 0.92, 0.1, 0.5]), np.float32([0.8, 0.3, 0.2, 0.5])
    assert brier(predicted, label) == pytest.approx((0.01 + 0.8464 + 0.01 + 0) / 4)
    bins = [(each.predicted, each.observed, each.comparisons) for each in calibration(predicted, label)]
    assert [tuple(map(pytest.approx, each)) for each in bins] == [(0.1, 0, 1), (0.5, 0.5, 1), (0.91, 0.5, 2)]


def test_drift_of_the_same_order_and_of_the_opposite():
    before = np.float32([0, 1, 2, 3])
    assert drift(before, before) == (0, pytest.approx(1))
    assert drift(before, before[::-1]) == (pytest.approx(2), pytest.approx(-1))
    assert drift(before, before + 1) == (pytest.approx(1), pytest.approx(1))
