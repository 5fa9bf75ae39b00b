"""Generalised advantage estimation on `[T, N]` arrays whose slots continue across rollouts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.boundary import Boundary, ends_episode

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def episodic_advantages(
    reward: Floats,
    value: Floats,
    last_value: Floats,
    final_value: Floats,
    boundary: NDArray[np.uint8],
    gamma: float,
    lam: float,
    still: Bools | None = None,
) -> Floats:
    """GAE(gamma, lambda) of a stream that ends with its episode (Schulman et al. 2016, eq. 16).

    `reward, value, boundary`: `[T, N]`; `last_value[N]` is the value of the open end; `final_value[T, N]` the
    value of the true last observation where an episode was truncated (elsewhere ignored). A terminated step
    has no future; a truncated one is worth `final_value`; at a handover the episode goes on. At steps `still`
    the game stood still: they are not discounted.
    """
    following = np.concatenate([value[1:], last_value[None]])
    following = np.where(boundary == Boundary.TRUNCATED, final_value, following)
    following = np.where(boundary == Boundary.TERMINATED, np.float32(0), following)
    return _sum(reward, following, value, ~ends_episode(boundary), gamma, lam, still)


def continuing_advantages(
    reward: Floats,
    value: Floats,
    last_value: Floats,
    gamma: float,
    lam: float,
    still: Bools | None = None,
) -> Floats:
    """GAE of a stream that knows no episodes: an ended episode flows into the next one of its slot.

    Burda et al. 2018, section 2.3: an intrinsic return that stopped at a death would reveal the death.
    """
    following = np.concatenate([value[1:], last_value[None]])
    return _sum(reward, following, value, np.ones(reward.shape, np.bool_), gamma, lam, still)


def _sum(
    reward: Floats,
    following: Floats,
    value: Floats,
    goes_on: Bools,
    gamma: float,
    lam: float,
    still: Bools | None,
) -> Floats:
    """`A[t] = reward + gamma * following - value + gamma * lam * A[t + 1]`, the last where it goes on."""
    discount, decay = np.full((2, *reward.shape), [[[gamma]], [[gamma * lam]]], np.float32)
    if still is not None:
        discount[still] = decay[still] = 1
    delta = reward + discount * following - value
    decay *= goes_on
    advantage = np.zeros_like(delta, dtype=np.float32)
    running = np.zeros(delta.shape[1], np.float32)
    for t in range(len(delta) - 1, -1, -1):
        running = delta[t] + decay[t] * running
        advantage[t] = running
    return advantage
