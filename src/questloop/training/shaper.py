"""The shaping of an epoch: its weighted potential, and re-fitting the critic when the potential changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from questloop.rewards.shaping import Potential, annealed, progress, shaping
from questloop.setting_types import Shaping
from questloop.training.advantages import Values

Floats = NDArray[np.float32]

_PIECE = 4096
_REFIT_LR = 5e-4
_REFIT_PASSES = 60
_REFIT_GOOD = 0.02  # of the change's mean square


@dataclass(frozen=True)
class Shaper:
    """A weighted potential, frozen for an epoch. Without one every potential is 0."""

    potential: Potential | None
    weight: float
    reason: str
    form: Shaping = Shaping.PROGRESS

    @classmethod
    def off(cls, reason: str = "off: no reward model yet") -> Shaper:
        """No shaping."""
        return cls(None, 0.0, reason)

    @classmethod
    def of(cls, potential: Potential | None, coef: float, form: Shaping = Shaping.PROGRESS) -> Shaper:
        """Weighted by `coef` and by how far the potential is to be trusted."""
        if coef == 0:
            return cls.off("off: SHAPING_COEF is 0")
        if potential is None:
            return cls.off()
        weight = annealed(
            coef, potential.trust, potential.trust_low, potential.accuracy, potential.accuracy_low
        )
        return cls(potential if weight.value else None, weight.value, weight.reason, form)

    @property
    def active(self) -> bool:
        """Whether it changes anything."""
        return self.potential is not None

    def values_below(self, obs: Floats) -> Floats:
        """How far the values of a critic are lower for this shaping `[B]`, on `obs[B, D]`.

        That is the potential itself where its discounted change is paid (Ng et al. 1999). What progress adds
        to a value depends on the policy, and is left for the critic to learn.
        """
        return self(obs) if self.form is Shaping.POTENTIAL else np.zeros(len(obs), np.float32)

    def __call__(self, obs: Floats) -> Floats:
        """Weighted potentials `[B]` of `obs[B, D]`."""
        if self.potential is None:
            return np.zeros(len(obs), np.float32)
        return np.float32(self.weight) * self.potential(obs)

    def rewards(
        self,
        phi: Values,
        boundary: NDArray[np.uint8],
        gamma: float,
        still: NDArray[np.bool_] | None = None,
    ) -> Floats:
        """Shaping rewards `[T, N]` from weighted potentials in the shape of a rollout."""
        rows = np.concatenate([phi.value, phi.last[None]])
        if self.form is Shaping.POTENTIAL:
            return shaping(rows, phi.final, boundary, gamma, still)
        return progress(rows, phi.final, boundary)


class Critic(Protocol):
    """What `refit_critic` needs of a network."""

    def values(self, obs: Tensor, /) -> Tensor:
        """`[B, 2]`: extrinsic and intrinsic value."""

    def critic_parameters(self) -> list[nn.Parameter]:
        """Those that no action depends on."""


def values_of(network: Critic, obs: Tensor) -> Tensor:
    """Values `[B, 2]` without gradient, in pieces, since images of a whole batch would not fit as floats."""
    with torch.no_grad():
        return torch.cat([network.values(piece) for piece in obs.split(_PIECE)])


def refit_critic(network: Critic, obs: Tensor, change: Tensor, rng: np.random.Generator) -> float:
    """Shift the extrinsic value by `-change[B]` on `obs[B, D]`; the error left, as a share of the change's.

    With potential Phi the value of a state is the unshaped value minus Phi (Ng et al. 1999), so a new
    potential moves every value by `-(Phi_new - Phi_old)`. The critic is regressed to that before the first
    advantages are taken; the policy is untouched, since only what no action depends on is fitted.
    """
    targets = values_of(network, obs)
    with torch.no_grad():
        targets[:, 0] -= change
    scale = float(change.square().mean())
    if scale < 1e-12:
        return 0.0
    optimizer = torch.optim.Adam(network.critic_parameters(), lr=_REFIT_LR)
    residual = 1.0
    for _ in range(_REFIT_PASSES):
        for rows in torch.from_numpy(rng.permutation(len(obs))).to(obs.device).split(512):
            loss = (network.values(obs[rows]) - targets[rows]).square().sum(dim=1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        residual = float((values_of(network, obs) - targets).square().sum(dim=1).mean()) / scale
        if residual < _REFIT_GOOD:
            break
    return residual
