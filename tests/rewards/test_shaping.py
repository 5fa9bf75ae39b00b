"""Shaping against closed forms."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.episodes.boundary import Boundary
from questloop.rewards import shaping as module
from questloop.rewards.shaping import annealed, progress, shaping

NONE, TERMINATED, TRUNCATED, HANDOVER = Boundary


def shaped(phi, boundary, gamma, phi_final=None):
    """`shaping` of one slot given as plain lists."""
    final = np.full(len(boundary), np.nan, np.float32) if phi_final is None else np.float32(phi_final)
    column = np.array(boundary, np.uint8)[:, None]
    return shaping(np.float32(phi)[:, None], final[:, None], column, gamma)[:, 0]


def test_hand_computed_values_at_every_boundary():
    rewards = shaped(
        phi=[1.0, 2.0, 4.0, 8.0, 16.0],
        boundary=[NONE, TERMINATED, TRUNCATED, HANDOVER],
        phi_final=[100.0, 100.0, 5.0, 100.0],
        gamma=0.5,
    )
    assert rewards.tolist() == [0.5 * 2 - 1, -2, 0.5 * 5 - 4, 0.5 * 16 - 8]


@given(
    st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=40),
    st.floats(0.5, 0.999),
)
def test_the_discounted_sum_of_a_terminated_episode_is_minus_phi_of_its_start(phi, gamma):
    boundary = [NONE] * (len(phi) - 1) + [TERMINATED]
    rewards = shaped([*phi, 4.0], boundary, gamma).astype(np.float64)
    assert (rewards * gamma ** np.arange(len(phi))).sum() == pytest.approx(-phi[0], abs=1e-4)


def test_a_truncated_episode_keeps_the_potential_of_its_final_observation():
    gamma, phi, final = 0.9, [1.0, 3.0, 2.0], 7.0
    rewards = shaped([*phi, -50.0], [NONE, NONE, TRUNCATED], gamma, [0, 0, final])
    total = (rewards * gamma ** np.arange(3)).sum()
    assert total == pytest.approx(gamma**3 * final - phi[0], abs=1e-5)


def test_every_restart_takes_its_own_potential_as_baseline():
    """An episode from the archive that starts high and falls is paid for the fall, not for the start."""
    rewards = shaped([0.0, 5.0, 5.0], [TERMINATED, NONE], gamma=1.0)
    assert rewards.tolist() == [0.0, 0.0]


def test_a_handover_joins_rollouts_without_a_seam():
    gamma, phi = 0.99, np.float32([[0.3], [0.9], [-0.4], [0.2], [1.1]])
    none, final = np.zeros((4, 1), np.uint8), np.zeros((4, 1), np.float32)
    whole = shaping(phi, final, none, gamma)
    cut = none[:2].copy()
    cut[1] = HANDOVER
    parts = [shaping(phi[:3], final[:2], cut, gamma), shaping(phi[2:], final[2:], none[2:], gamma)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@given(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=20), st.integers(0, 18), st.integers(1, 9))
def test_a_wait_pays_nothing_and_changes_nothing_else(phi, at, waits):
    gamma, at = 0.9, at % (len(phi) - 1)
    waited = np.float32([*phi[: at + 1], *[phi[at]] * waits, *phi[at + 1 :]])[:, None]
    none, final = np.zeros((len(waited) - 1, 1), np.uint8), np.zeros((len(waited) - 1, 1), np.float32)
    still = np.zeros(none.shape, np.bool_)
    still[at : at + waits] = True
    rewards = shaping(waited, final, none, gamma, still)
    assert (rewards[still] == 0).all()
    np.testing.assert_allclose(rewards[~still], shaped(phi, [NONE] * (len(phi) - 1), gamma), atol=1e-6)


def test_shaping_leaves_the_optimal_policy_of_a_chain():
    """Value iteration on a 5-state chain, with and without shaping, chooses alike (Ng et al. 1999)."""
    gamma, phi = 0.9, np.random.default_rng(0).normal(size=5)
    plain, advised = (_greedy(gamma, shaped_by) for shaped_by in (np.zeros(5), phi * 10))
    np.testing.assert_array_equal(plain, advised)


def _greedy(gamma: float, phi: np.ndarray) -> np.ndarray:
    """Actions (0 left, 1 right) of states 0..3; reaching state 4 pays 1 and terminates."""
    following = np.array([[max(state - 1, 0), state + 1] for state in range(4)])
    final = following == 4
    reward = final + gamma * np.where(final, 0, phi[following]) - phi[:4, None]
    value = np.zeros(5)
    for _ in range(200):
        quality = reward + gamma * np.where(final, 0, value[following])
        value[:4] = quality.max(axis=1)
    return quality.argmax(axis=1)


def paid(phi, boundary, phi_final=None):
    """`progress` of one slot given as plain lists."""
    final = np.full(len(boundary), np.nan, np.float32) if phi_final is None else np.float32(phi_final)
    column = np.array(boundary, np.uint8)[:, None]
    return progress(np.float32(phi)[:, None], final[:, None], column)[:, 0].tolist()


def test_progress_by_hand_at_every_boundary():
    rewards = paid(
        phi=[1.0, 3.0, 2.0, 4.0, 9.0, 10.0, 11.0],
        boundary=[NONE, NONE, HANDOVER, TERMINATED, TRUNCATED, NONE],
        phi_final=[100.0, 100.0, 100.0, 100.0, 9.5, 100.0],
    )
    assert rewards == [2, -1, 2, 0, 0.5, 1]


@given(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=40))
def test_progress_sums_to_what_an_episode_has_gained(phi):
    assert sum(paid(phi, [NONE] * (len(phi) - 1))) == pytest.approx(phi[-1] - phi[0], abs=1e-4)


@given(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=40), st.floats(0, 1))
def test_progress_is_the_discounted_change_and_a_small_reward_for_where_a_step_leads(phi, gamma):
    boundary = [NONE] * (len(phi) - 1)
    expected = shaped(phi, boundary, gamma) + (1 - gamma) * np.array(phi[1:])
    np.testing.assert_allclose(paid(phi, boundary), expected, atol=1e-5)


def test_a_critic_that_knows_the_potential_makes_nothing_of_its_change_and_something_of_progress():
    """One-step advantages of a walk: with `shaping` those without any, whatever the potential is."""
    gamma, rng = 0.9, np.random.default_rng(1)
    phi, value = np.arange(8, dtype=np.float32), rng.normal(size=8).astype(np.float32)
    none = [NONE] * 7

    def advantages(reward, values):
        return reward + gamma * values[1:] - values[:-1]

    plain = advantages(np.zeros(7), value)
    np.testing.assert_allclose(advantages(shaped(phi, none, gamma), value - phi), plain, atol=1e-5)
    left = advantages(np.array(paid(phi, none)), value - phi)
    np.testing.assert_allclose(left, plain + (1 - gamma) * phi[1:], atol=1e-5)


@pytest.mark.parametrize(
    ("trust", "low", "value"), [(1.0, 0.99, 2.0), (0.75, 0.7, 1.0), (0.6, 0.5, 0.0), (0.3, 0.2, 0.0)]
)
def test_the_weight_follows_trust_above_chance(trust, low, value):
    assert annealed(2.0, trust, low, 0.6, 0.55).value == pytest.approx(value)


@pytest.mark.parametrize(("accuracy", "low"), [(0.52, 0.47), (0.4, 0.3), (float("nan"), float("nan"))])
def test_a_model_no_better_than_chance_is_off_and_says_so(accuracy, low):
    weight = annealed(1.0, 1.0, 0.99, accuracy, low)
    assert weight.value == 0
    assert weight.reason.startswith("off: held-out accuracy")


@pytest.mark.parametrize(("trust", "low"), [(0.52, 0.47), (0.0, 0.0), (float("nan"), float("nan"))])
def test_agreement_with_the_judges_alone_gives_no_weight(trust, low):
    weight = annealed(1.0, trust, low, 0.99, 0.98)
    assert weight.value == 0
    assert weight.reason.startswith("off: ")
    assert "milestone" in weight.reason


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0
