import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.judges.test_ensemble import judged

from questloop.judges.agreement import alpha, krippendorff_alpha, tau
from questloop.judges.ensemble import combine


def lines(*columns):
    """One line a column of overall scores; None: that judge has none."""
    return [
        combine(f"s{number}", "e", 0, {f"j{row}": judged(value) for row, value in enumerate(column)})
        for number, column in enumerate(columns)
    ]


def test_alpha_by_hand():
    # Interval alpha of two raters: 1 - observed / expected squared differences.
    # Values 0 0 | 1 1 | 0 1: D_o = 1/3; all six values 0 0 0 1 1 1: D_e = 18/30 = 0.6.
    assert alpha(lines((0.0, 0.0), (1.0, 1.0), (0.0, 1.0))) == pytest.approx(1 - (1 / 3) / 0.6)


def test_full_agreement_is_one_and_missing_values_are_allowed():
    assert alpha(lines((0.1, 0.1, None), (0.7, None, 0.7), (0.4, 0.4, 0.4), (None, None, 0.9))) == 1.0


@pytest.mark.parametrize("columns", [[], [(0.5, 0.5), (0.5, 0.5)], [(0.5, None), (None, 0.2)]])
def test_alpha_is_none_where_it_is_not_defined(columns):
    assert alpha(lines(*columns)) is None


def test_tau_b_by_hand_under_ties():
    # Pairs of (score, outcome): concordant 3, discordant 0, tied on the outcome only 2, on both 1.
    values = {"a": 0.1, "b": 0.5, "c": 0.5, "d": 0.9}
    outcomes = {"a": False, "b": True, "c": True, "d": True}
    result = tau(values, outcomes)
    assert result.tau == pytest.approx(3 / (5 * 3) ** 0.5, abs=1e-6)
    assert (result.n, result.positive) == (4, 3)


def test_tau_takes_only_segments_with_both():
    assert tau({"a": 0.1, "b": None, "c": 0.3}, {"a": False, "b": True, "x": True}).n == 1


def test_tau_is_none_where_one_side_does_not_vary():
    assert tau({"a": 0.1, "b": 0.2}, {"a": True, "b": True}).tau is None
    assert tau({"a": 0.1, "b": 0.1}, {"a": True, "b": False}).tau is None


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(0, 6))] * 3), min_size=2, max_size=12))
def test_alpha_is_that_of_the_reference_package(columns):
    table = np.array(columns, dtype=float).T / 6
    paired = table[:, (~np.isnan(table)).sum(axis=0) >= 2]
    assume(np.unique(paired[~np.isnan(paired)]).size >= 2)
    reference = krippendorff.alpha(reliability_data=paired, level_of_measurement="interval")
    assert krippendorff_alpha(table) == pytest.approx(reference, abs=1e-5)


def test_alpha_of_many_different_scores_takes_little_memory():
    table = np.random.default_rng(0).random((3, 20_000))
    assert krippendorff_alpha(table) == pytest.approx(0, abs=0.03)
