"""Potential-based shaping: the reward model's advice, in the one form that keeps the optimal policy."""

from __future__ import annotations

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
    def gold_accuracy(self) -> float:
        """Share of held-out pairs that it orders by what followed them, 0..1; NaN: too few are known."""

    @property
    def gold_high(self) -> float:
        """Upper end of the 95% interval of `gold_accuracy`."""

    def __call__(self, obs: NDArray[np.float32], /) -> NDArray[np.float32]:
        """Potentials f32 [B] of observations f32 [B, 128], about 1 in scale."""


@dataclass(frozen=True)
class ShapingWeight:
    """The factor on the shaping reward in an epoch, and why it is so."""

    value: float
    reason: str


def shaping(
    phi: NDArray[np.float32], phi_final: NDArray[np.float32], boundary: NDArray[np.uint8], gamma: float
) -> NDArray[np.float32]:
    """Shaping rewards f32 [T, N]: `F = gamma (1 - terminated) phi(s') - phi(s)`.

    Args:
        phi: f32 [T + 1, N], potentials of the observation before each step; row T is that of the open end.
            An episode that starts in the middle, by a reset or a restored state, has its own `phi(s0)` here.
        phi_final: f32 [T, N], potentials of the true last observations, read where `boundary` is TRUNCATED.
        boundary: u8 [T, N], what follows each step.
        gamma: the learner's own discount; with another one the optimal policy changes.

    Over a terminated episode the discounted sum of F is `-phi(s0)`, whatever happened in it.

    Sources: Ng, Harada, Russell 1999, "Policy invariance under reward transformations"; Grzes 2017, "Reward
    shaping in episodic reinforcement learning" (the potential of a terminal state is 0).
    """
    following = np.where(boundary == Boundary.TRUNCATED, phi_final, phi[1:])
    following[boundary == Boundary.TERMINATED] = 0
    return (gamma * following - phi[:-1]).astype(np.float32)


def annealed(
    coef: float,
    accuracy: float,
    accuracy_low: float,
    gold_accuracy: float = float("nan"),
    gold_high: float = float("nan"),
) -> ShapingWeight:
    """Weight of the shaping reward: `coef * (2 accuracy - 1)`, and 0 unless accuracy is surely above chance.

    It is 0 as well where accuracy against what followed is known and surely below chance: the model agrees
    with its judges, and they were wrong.

    >>> annealed(1.0, accuracy=0.75, accuracy_low=0.7)
    ShapingWeight(value=0.5, reason='held-out accuracy 0.750')
    >>> annealed(1.0, accuracy=0.52, accuracy_low=0.48).value
    0.0
    >>> annealed(1.0, accuracy=0.75, accuracy_low=0.7, gold_accuracy=0.34, gold_high=0.45).value
    0.0
    """
    if not accuracy_low > CHANCE:
        return ShapingWeight(
            0.0,
            f"off: held-out accuracy {accuracy:.3f} is not better than chance "
            f"(95% interval from {accuracy_low:.3f})",
        )
    if gold_high < CHANCE:
        return ShapingWeight(
            0.0,
            f"off: held-out accuracy {gold_accuracy:.3f} against what followed is worse than chance "
            f"(95% interval up to {gold_high:.3f}), though {accuracy:.3f} against the judges",
        )
    return ShapingWeight(coef * min(2 * accuracy - 1, 1.0), f"held-out accuracy {accuracy:.3f}")
