"""Advantages against closed forms and a plain per-slot loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.episodes.boundary import Boundary
from questloop.training.gae import continuing_advantages, episodic_advantages

GAMMA, LAM = 0.9, 0.8


def column(*values):
    return np.array(values, np.float32)[:, None]


def advantages(reward, value, last, boundary, final=None, gamma=GAMMA, lam=LAM):
    boundary = np.array(boundary, np.uint8)[:, None]
    return episodic_advantages(
        column(*reward),
        column(*value),
        np.array([last], np.float32),
        column(*final) if final else np.zeros_like(column(*reward)),
        boundary,
        gamma,
        lam,
    ).ravel()


def test_chain_terminated_has_analytic_targets():
    """s0 -> s1 -> s2 -> end, reward 1 at the end, lambda 1: targets are the discounted returns."""
    value = [0.3, -0.2, 0.5]
    targets = advantages([0, 0, 1], value, last=9.0, boundary=[0, 0, Boundary.TERMINATED], lam=1.0) + value
    np.testing.assert_allclose(targets, [GAMMA**2, GAMMA, 1], rtol=1e-6)


def test_chain_truncated_bootstraps_the_final_observation_not_the_reset_one():
    value, final = [0.3, -0.2, 0.5], [7.0, 7.0, 2.0]
    targets = (
        advantages([0, 0, 1], value, last=9.0, boundary=[0, 0, Boundary.TRUNCATED], final=final, lam=1.0)
        + value
    )
    end = 1 + GAMMA * 2.0
    np.testing.assert_allclose(targets, [GAMMA**2 * end, GAMMA * end, end], rtol=1e-6)


def test_open_end_bootstraps_the_last_value():
    assert advantages([1], [0.5], last=3.0, boundary=[0])[0] == pytest.approx(1 + GAMMA * 3.0 - 0.5)


def test_at_a_handover_the_episode_goes_on():
    rewards, values = [1, 5, 2], [0.5, 2.0, 0.3]
    through = advantages(rewards, values, last=0.7, boundary=[Boundary.HANDOVER, 0, Boundary.HANDOVER])
    np.testing.assert_array_equal(through, advantages(rewards, values, last=0.7, boundary=[0, 0, 0]))


def test_a_game_that_stands_still_is_worth_what_it_is_worth_without_the_wait():
    rewards, values = [1, 2], [0.5, 2.0]
    plain = advantages(rewards, values, last=0.7, boundary=[0, 0])
    waited = episodic_advantages(
        column(1, 0, 0, 2),
        column(0.5, 2.0, 2.0, 2.0),
        np.array([0.7], np.float32),
        column(0, 0, 0, 0),
        np.zeros((4, 1), np.uint8),
        GAMMA,
        LAM,
        still=np.array([False, True, True, False])[:, None],
    ).ravel()
    np.testing.assert_allclose(waited[[0, 3]], plain, rtol=1e-6)


def test_continuing_stream_flows_through_an_episode_end():
    reward, value = column(1, 1), column(0, 0)
    got = continuing_advantages(reward, value, np.zeros(1, np.float32), GAMMA, LAM)
    np.testing.assert_allclose(got.ravel(), [1 + GAMMA * LAM, 1], rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
def test_equals_a_plain_loop_over_each_slot(seed, steps, slots):
    rng = np.random.default_rng(seed)
    reward, value, final = (rng.normal(size=(steps, slots)).astype(np.float32) for _ in range(3))
    last = rng.normal(size=slots).astype(np.float32)
    boundary = rng.integers(0, 4, size=(steps, slots)).astype(np.uint8)
    got = episodic_advantages(reward, value, last, final, boundary, GAMMA, LAM)
    for n in range(slots):
        running = 0.0
        for t in reversed(range(steps)):
            following = value[t + 1, n] if t + 1 < steps else last[n]
            following = {Boundary.TERMINATED: 0.0, Boundary.TRUNCATED: final[t, n]}.get(
                boundary[t, n], following
            )
            over = boundary[t, n] in (Boundary.TERMINATED, Boundary.TRUNCATED)
            running = reward[t, n] + GAMMA * following - value[t, n] + (not over) * GAMMA * LAM * running
            assert got[t, n] == pytest.approx(running, abs=1e-5)
