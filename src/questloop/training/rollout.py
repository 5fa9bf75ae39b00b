"""The rollout that runners hand to the learner: `T` steps of `N` slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]


@dataclass
class Rollout:
    """Arrays `[T, N]`; slot `n` of one rollout goes on as slot `n` of the next.

    `observations` has one row more than there are steps: row `t` is what action `t` was chosen on, row `T` is
    what the next rollout starts from. Where an episode ends inside the rollout (terminated or truncated), the
    row after it is already the next episode's first observation; the true last one is in `final_obs`.
    """

    observations: NDArray  # [T + 1, N, *shape], float32 vectors or uint8 images
    action: Bytes  # [T, N]
    logp: Floats  # [T, N], log-probability of the action under the policy that chose it
    reward: Floats  # [T, N], extrinsic and unshaped
    boundary: Bytes  # [T, N], of `episodes.boundary.Boundary`
    mask: Bools  # [T, N], False: a planner's step, which the policy's loss leaves out
    final_index: NDArray[np.int64]  # [M], t * N + n of every terminated or truncated step, ascending
    final_obs: NDArray  # [M, *shape]
    features: Floats | None = None  # [T + 1, N, D] vectors beside what the policy sees; None: it sees them
    final_features: Floats | None = None  # [M, D]
    still: Bools | None = None  # [T, N], the game stood still, waiting for a plan; None: nowhere

    @property
    def obs(self) -> NDArray:
        """`[T, N, *shape]`: what each action was chosen on."""
        return self.observations[:-1]

    @property
    def shape(self) -> tuple[int, int]:
        """`(T, N)`."""
        steps, slots = self.action.shape
        return steps, slots

    @property
    def vectors(self) -> Floats:
        """`[T + 1, N, D]`: what curiosity and the potential look at."""
        return self.observations if self.features is None else self.features

    @property
    def final_vectors(self) -> Floats:
        """`[M, D]`."""
        return self.final_obs if self.final_features is None else self.final_features

    def next_vectors(self) -> Floats:
        """`[T, N, D]`: what each step led to; never the observation of a reset."""
        after = self.vectors[1:].copy()
        after.reshape(-1, after.shape[-1])[self.final_index] = self.final_vectors
        return after

    def scatter_final(self, values: Floats) -> Floats:
        """Spread `values[M]`, one a final observation, over `[T, N]`; zero elsewhere."""
        spread = np.zeros(self.shape, np.float32)
        spread.ravel()[self.final_index] = values
        return spread


def concatenate(rollouts: Sequence[Rollout]) -> Rollout:
    """Put the slots of several runners side by side; all have the same number of steps."""
    if len(rollouts) == 1:
        return rollouts[0]
    steps = rollouts[0].shape[0]
    total = sum(rollout.shape[1] for rollout in rollouts)
    indices, first = [], 0
    for rollout in rollouts:
        t, n = np.divmod(rollout.final_index, rollout.shape[1])
        indices.append(t * total + first + n)
        first += rollout.shape[1]
    index = np.concatenate(indices)
    order = np.argsort(index, kind="stable")
    names = ["observations", "action", "logp", "reward", "boundary", "mask"]
    if rollouts[0].features is not None:
        names.append("features")
    joined = {
        name: np.concatenate([getattr(rollout, name) for rollout in rollouts], axis=1) for name in names
    }
    assert joined["action"].shape == (steps, total)
    if any(rollout.still is not None for rollout in rollouts):
        still = [np.zeros_like(each.mask) if each.still is None else each.still for each in rollouts]
        joined["still"] = np.concatenate(still, axis=1)
    final_obs = np.concatenate([rollout.final_obs for rollout in rollouts])[order]
    final_features = np.concatenate([rollout.final_vectors for rollout in rollouts])[order]
    return Rollout(
        **joined,
        final_index=index[order],
        final_obs=final_obs,
        final_features=final_features if "features" in joined else None,
    )
