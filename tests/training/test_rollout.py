"""Rollouts of several runners side by side."""

import numpy as np

from questloop.training.rollout import concatenate
from questloop.training.runner import empty_rollout


def rollout(slots, fill, finals):
    made = empty_rollout(3, slots, (2,), np.dtype(np.float32))
    made.observations[:] = fill
    made.final_index = np.array([t * slots + n for t, n in finals], np.int64)
    made.final_obs = np.array([[fill + 10 * t + n] * 2 for t, n in finals], np.float32).reshape(-1, 2)
    return made


def test_concatenation_keeps_slots_and_final_observations_together():
    joined = concatenate([rollout(2, 100, [(0, 1), (2, 0)]), rollout(3, 200, [(0, 0), (1, 2)])])
    assert joined.shape == (3, 5)
    assert joined.final_index.tolist() == [0 * 5 + 1, 0 * 5 + 2, 1 * 5 + 4, 2 * 5 + 0]
    assert joined.final_obs[:, 0].tolist() == [101, 200, 212, 120]
    after = joined.next_vectors()
    assert after[0, 1, 0] == 101
    assert after[0, 0, 0] == 100
    assert after[1, 4, 0] == 212


def test_final_values_are_spread_over_their_steps():
    spread = rollout(2, 0, [(0, 1), (2, 0)]).scatter_final(np.array([5, 6], np.float32))
    assert spread.tolist() == [[0, 5], [0, 0], [6, 0]]
