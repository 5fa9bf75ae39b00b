"""Turns a rollout and the critic's values into the batch that the learner is updated with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from questloop.training.gae import continuing_advantages, episodic_advantages
from questloop.training.rollout import Rollout

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Discounts:
    """How far both streams look ahead."""

    gamma: float = 0.99
    lam: float = 0.95
    gamma_int: float = 0.99
    intrinsic_coef: float = 0.5


@dataclass(frozen=True)
class Values:
    """The critic's view of a rollout, per stream."""

    value: Floats  # [T, N]
    last: Floats  # [N]
    final: Floats  # [T, N], at truncated and terminated steps, elsewhere 0


@dataclass(frozen=True)
class TrainBatch:
    """Flat arrays `[B]` of every step, ready for minibatches."""

    obs: NDArray
    action: NDArray[np.int64]
    logp: Floats
    played: NDArray[np.bool_]  # by the policy; the others by a planner
    advantage: Floats  # both streams, standardised over the steps that the policy played
    target_ext: Floats
    target_int: Floats
    value_ext: Floats  # what the critic said before the update
    vectors: Floats | None = None  # beside what the policy sees

    def __len__(self) -> int:
        return len(self.action)


def finish(
    rollout: Rollout,
    extrinsic: Values,
    intrinsic: Values | None,
    discounts: Discounts,
    shaping: Floats | None = None,
    bonus: Floats | None = None,
) -> TrainBatch:
    """Both GAEs on `[T, N]`, summed, standardised and flattened.

    `shaping[T, N]` is added to the extrinsic reward; `bonus[T, N]` is the intrinsic reward. A planner's steps
    are to the policy what happens next: their rewards count for the step that led there, and the critic
    learns their values too, since that step is worth what they are. (Bootstrapping on values that are not
    learned made policies seek takeovers for their own sake.) While a game stands still no time passes.
    """
    reward = rollout.reward if shaping is None else rollout.reward + shaping
    advantage_ext = episodic_advantages(
        reward,
        extrinsic.value,
        extrinsic.last,
        extrinsic.final,
        rollout.boundary,
        discounts.gamma,
        discounts.lam,
        rollout.still,
    )
    advantage, target_int = advantage_ext, np.zeros_like(advantage_ext)
    if bonus is not None and intrinsic is not None:
        advantage_int = continuing_advantages(
            bonus, intrinsic.value, intrinsic.last, discounts.gamma_int, discounts.lam, rollout.still
        )
        advantage = advantage_ext + np.float32(discounts.intrinsic_coef) * advantage_int
        target_int = advantage_int + intrinsic.value

    def flat(array: NDArray) -> NDArray:
        return array.reshape(-1, *array.shape[2:])

    played = flat(rollout.mask)
    return TrainBatch(
        obs=flat(rollout.obs),
        action=flat(rollout.action).astype(np.int64),
        logp=flat(rollout.logp),
        played=played,
        advantage=standardise(flat(advantage), played),
        target_ext=flat(advantage_ext + extrinsic.value),
        target_int=flat(target_int),
        value_ext=flat(extrinsic.value),
        vectors=flat(rollout.features[:-1]) if rollout.features is not None else None,
    )


def standardise(advantage: Floats, played: NDArray[np.bool_] | None = None) -> Floats:
    """Mean 0 and standard deviation 1 over the steps `played` (divided by at least 1e-4, as RLlib does)."""
    counted = advantage if played is None or played.all() or not played.any() else advantage[played]
    return (advantage - counted.mean()) / np.float32(max(1e-4, float(counted.std())))
