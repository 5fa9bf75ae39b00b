"""Turns a potential, such as the reward model's, into rewards, and decides what weight it has, if any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.boundary import Boundary

CHANCE = 0.5


class Potential(Protocol):
    """A function of the state, frozen for an epoch, and how far it is to be trusted."""

    @property
    def sha256(self) -> str:
        """Hash of the file it came from."""

    @property
    def observation_version(self) -> int:
        """Layout of the observations it reads."""

    @property
    def accuracy(self) -> float:
        """Share of held-out pairs that it orders as the judges do, 0..1."""

    @property
    def accuracy_low(self) -> float:
        """Lower end of the 95% interval of `accuracy`."""

    @property
    def trust(self) -> float:
        """Share of pairs of states of one held-out episode, before and after a milestone, that it orders as
        they happened, 0..1; NaN: no episode is known that reached one."""

    @property
    def trust_low(self) -> float:
        """Lower end of the 95% interval of `trust`."""

    def __call__(self, obs: NDArray[np.float32], /) -> NDArray[np.float32]:
        """Potentials f32 [B] of observations f32 [B, 128], about 1 in scale."""


@dataclass(frozen=True)
class ShapingWeight:
    """The factor on the shaping reward in an epoch, and why it is so."""

    value: float
    reason: str


def shaping(
    phi: NDArray[np.float32],
    phi_final: NDArray[np.float32],
    boundary: NDArray[np.uint8],
    gamma: float,
    still: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """Shaping rewards f32 [T, N]: `F = gamma (1 - terminated) phi(s') - phi(s)`.

    Args:
        phi: f32 [T + 1, N], potentials of the observation before each step; row T is that of the open end.
            An episode that starts in the middle, by a reset or a restored state, has its own `phi(s0)` here.
        phi_final: f32 [T, N], potentials of the true last observations, read where `boundary` is TRUNCATED.
        boundary: u8 [T, N], what follows each step.
        gamma: the learner's own discount; with another one the optimal policy changes.
        still: bool [T, N], steps in which the game stood still, which nobody discounts; None: none.

    Over a terminated episode the discounted sum of F is `-phi(s0)`, whatever happened in it.

    Sources: Ng, Harada, Russell 1999, "Policy invariance under reward transformations"; Grzes 2017, "Reward
    shaping in episodic reinforcement learning" (the potential of a terminal state is 0).
    """
    following = np.where(boundary == Boundary.TRUNCATED, phi_final, phi[1:])
    following[boundary == Boundary.TERMINATED] = 0
    discount = gamma if still is None else np.where(still, 1, gamma)
    return (discount * following - phi[:-1]).astype(np.float32)


def progress(
    phi: NDArray[np.float32], phi_final: NDArray[np.float32], boundary: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """Rewards f32 [T, N] for what the potential changes: `phi(s') - phi(s)`, arguments as in `shaping`.

    Nothing is paid where the game is over. An episode is paid what it has gained when it ends, whatever it
    did in between. This is `shaping` and `(1 - gamma) phi(s')` besides, a small reward of every step for
    being far on, so that it changes what is best to do. A critic that has learned a potential makes nothing
    of `shaping`, since the two are then one (Wiewiora 2003, "Potential-based shaping and Q-value
    initialization are equivalent"); that small reward is left.
    """
    after = np.where(boundary == Boundary.TRUNCATED, phi_final, phi[1:])
    return np.where(boundary == Boundary.TERMINATED, 0, after - phi[:-1]).astype(np.float32)


def annealed(
    coef: float, trust: float, trust_low: float, accuracy: float, accuracy_low: float
) -> ShapingWeight:
    """Weight of the shaping reward: `coef * (2 trust - 1)`, and 0 unless trust is surely above chance.

    Agreement with the judges gives no weight, since they may be wrong; it takes the weight away where it is
    not surely above chance. What was learned from nothing orders the two sides of a milestone the right way
    round in every episode or in none, which one tosses a coin for.

    >>> annealed(1.0, trust=0.75, trust_low=0.6, accuracy=0.8, accuracy_low=0.7)
    ShapingWeight(value=0.5, reason='0.750 of states before and after a milestone in the right order')
    >>> annealed(1.0, trust=0.1, trust_low=0.05, accuracy=0.8, accuracy_low=0.7).value
    0.0
    >>> annealed(1.0, trust=0.9, trust_low=0.8, accuracy=0.52, accuracy_low=0.48).value
    0.0
    """
    if math.isnan(trust):
        return ShapingWeight(0.0, "off: no held-out episode is known that reached a milestone")
    if not trust_low > CHANCE:
        return ShapingWeight(
            0.0,
            f"off: {trust:.3f} of states before and after a milestone in the right order is not better than "
            f"chance (95% interval from {trust_low:.3f})",
        )
    if not accuracy_low > CHANCE:
        return ShapingWeight(
            0.0,
            f"off: held-out accuracy {accuracy:.3f} against the judges is not better than chance "
            f"(95% interval from {accuracy_low:.3f})",
        )
    reason = f"{trust:.3f} of states before and after a milestone in the right order"
    return ShapingWeight(coef * (2 * trust - 1), reason)
