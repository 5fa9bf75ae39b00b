"""Generalised advantage estimation on `[T, N]` arrays whose slots continue across rollouts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.boundary import Boundary, ends_episode

Floats = NDArray[np.float32]


def episodic_advantages(
    reward: Floats,
    value: Floats,
    last_value: Floats,
    final_value: Floats,
    boundary: NDArray[np.uint8],
    gamma: float,
    lam: float,
) -> Floats:
    """GAE(gamma, lambda) of a stream that ends with its episode (Schulman et al. 2016, eq. 16).

    `reward, value, boundary`: `[T, N]`; `last_value[N]` is the value of the open end; `final_value[T, N]` the
    value of the true last observation where an episode was truncated (elsewhere ignored). A terminated step
    has no future; a truncated one is worth `final_value`; at a handover the episode goes on.
    """
    following = np.concatenate([value[1:], last_value[None]])
    following = np.where(boundary == Boundary.TRUNCATED, final_value, following)
    following = np.where(boundary == Boundary.TERMINATED, np.float32(0), following)
    return _backward_sum(reward + gamma * following - value, ~ends_episode(boundary), gamma * lam)


def continuing_advantages(
    reward: Floats,
    value: Floats,
    last_value: Floats,
    gamma: float,
    lam: float,
) -> Floats:
    """GAE of a stream that knows no episodes: an ended episode flows into the next one of its slot.

    Burda et al. 2018, section 2.3: an intrinsic return that stopped at a death would reveal the death.
    """
    following = np.concatenate([value[1:], last_value[None]])
    return _backward_sum(reward + gamma * following - value, np.ones(reward.shape, np.bool_), gamma * lam)


def _backward_sum(delta: NDArray, goes_on: NDArray[np.bool_], decay: float) -> Floats:
    """`A[t] = delta[t] + decay * A[t + 1]` where the stream goes on."""
    advantage = np.zeros_like(delta, dtype=np.float32)
    running = np.zeros(delta.shape[1], np.float32)
    carry = np.where(goes_on, np.float32(decay), np.float32(0))
    for t in range(len(delta) - 1, -1, -1):
        running = delta[t] + carry[t] * running
        advantage[t] = running
    return advantage
