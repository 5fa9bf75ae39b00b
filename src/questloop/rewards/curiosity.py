"""Curiosity by random network distillation (RND).

Source: Burda, Edwards, Storkey, Klimov 2018, "Exploration by random network distillation". Observations
are whitened and clipped, the bonus is divided by the running deviation of its discounted return, and its
stream is non-episodic: nothing here is reset where an episode ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from questloop.dense import Activation, Dense, numbered

CLIP = 5.0
FEATURES = 128
HIDDEN = 256


class Curiosity:
    """The two networks and the statistics of N slots; the learner optimises `predictor` on `loss`."""

    def __init__(self, n: int, size: int, gamma: float, seed: int) -> None:
        """`n` slots, observations of `size` numbers, `gamma` of the intrinsic stream (0.99)."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.target = _network(size, FEATURES).requires_grad_(False)
            self.predictor = _network(size, HIDDEN, FEATURES)
        self._moments = RunningMoments(size)
        self._scale = ReturnScale(n, gamma)
        self._device = torch.device("cpu")

    def to(self, device: torch.device) -> Curiosity:
        """Itself, with its networks on `device`; the statistics stay on the CPU."""
        self.target.to(device)
        self.predictor.to(device)
        self._device = device
        return self

    def warm_up(self, obs: NDArray[np.float32]) -> None:
        """Take a random agent's observations f32 [B, size] into the statistics; do so before any bonus."""
        self._moments.update(obs)

    @torch.no_grad()
    def bonus(self, obs: NDArray[np.float32], still: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
        """Intrinsic rewards f32 [T, N] for the observations f32 [T, N, size] that each step led to.

        Nothing is paid where the game stood still, bool [T, N]; None: nowhere.
        Rows follow one another in time, also from call to call. Raises `RuntimeError` before a warm-up.
        """
        t, n, size = obs.shape
        flat = obs.reshape(t * n, size)
        there = torch.from_numpy(np.require(flat, requirements=["C", "W"])).to(self._device)
        error = self._error(there).cpu().numpy().reshape(t, n)
        self._moments.update(flat)
        return self._scale(error if still is None else np.where(still, np.float32(0), error))

    def loss(self, obs: Tensor) -> Tensor:
        """The predictor's mean error on observations f32 [B, size], with gradient."""
        return self._error(obs).mean()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Networks and statistics as arrays by name."""
        networks = {"target": self.target, "predictor": self.predictor}
        return {
            **{
                f"{name}.{key}": value.detach().cpu().numpy().copy()
                for name, network in networks.items()
                for key, value in network.state_dict().items()
            },
            **{f"moments.{key}": value for key, value in self._moments.state_dict().items()},
            **{f"scale.{key}": value for key, value in self._scale.state_dict().items()},
        }

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `state_dict` gave."""
        for name, network in (("target", self.target), ("predictor", self.predictor)):
            network.load_state_dict({k: torch.from_numpy(v) for k, v in _under(name, state).items()})
        self._moments.load_state_dict(_under("moments", state))
        self._scale.load_state_dict(_under("scale", state))

    def _error(self, obs: Tensor) -> Tensor:
        white = self._whiten(obs)
        return (self.predictor(white) - self.target(white)).square().sum(dim=-1) / 2

    def _whiten(self, obs: Tensor) -> Tensor:
        if self._moments.count == 0:
            raise RuntimeError("curiosity has no statistics yet: call warm_up first")
        mean = torch.as_tensor(self._moments.mean, dtype=torch.float32, device=obs.device)
        std = torch.as_tensor(self._moments.std, dtype=torch.float32, device=obs.device)
        return ((obs - mean) / std).clamp(-CLIP, CLIP)


class RunningMoments:
    """Mean and variance of a stream of vectors, in batches.

    Source: Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
    variances" (Welford's update for batches).
    """

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean = np.zeros(size)
        self._squares = np.zeros(size)

    @property
    def var(self) -> NDArray[np.float64]:
        """Population variance f64 [size]."""
        return self._squares / max(self.count, 1.0)

    @property
    def std(self) -> NDArray[np.float64]:
        """Deviation f64 [size], never 0."""
        return np.sqrt(self.var + 1e-8)

    def update(self, batch: NDArray[Any]) -> None:
        """Take in rows [B, size]."""
        other = RunningMoments(batch.shape[1])
        other.count = float(len(batch))
        other.mean = batch.mean(axis=0, dtype=np.float64)
        other._squares = np.square(batch - other.mean).sum(axis=0, dtype=np.float64)
        self.merge(other)

    def merge(self, other: RunningMoments) -> None:
        """Take in another stream's statistics, as if its rows had been seen here."""
        count = self.count + other.count
        if count == 0:
            return
        delta = other.mean - self.mean
        self.mean = self.mean + delta * (other.count / count)
        self._squares = self._squares + other._squares + delta**2 * (self.count * other.count / count)
        self.count = count

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Arrays by name."""
        return {"count": np.array(self.count), "mean": self.mean.copy(), "squares": self._squares.copy()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `state_dict` gave."""
        self.count = float(state["count"])
        self.mean, self._squares = state["mean"].copy(), state["squares"].copy()


class ReturnScale:
    """Divides rewards by the running deviation of their discounted return.

    The return runs over time, slot by slot, and never over slots; no mean is taken off, so a bonus stays
    positive (Burda et al. 2018, section 2.4).
    """

    def __init__(self, n: int, gamma: float) -> None:
        self._gamma = gamma
        self._carry = np.zeros(n)
        self._moments = RunningMoments(1)

    def __call__(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scaled rewards f32 [T, N] of rewards f32 [T, N], which go on from the call before."""
        returns = np.empty(rewards.shape)
        for step, reward in enumerate(rewards):
            self._carry = self._gamma * self._carry + reward
            returns[step] = self._carry
        self._moments.update(returns.reshape(-1, 1))
        return (rewards / self._moments.std).astype(np.float32)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Arrays by name."""
        return {"carry": self._carry.copy(), **self._moments.state_dict()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `state_dict` gave; other slots than those begin with a return of 0."""
        carry = state["carry"]
        self._carry = carry.copy() if carry.shape == self._carry.shape else np.zeros_like(self._carry)
        self._moments.load_state_dict(state)


def _network(size: int, *widths: int) -> nn.Sequential:
    """A net with a hidden layer of 256, then `widths`; orthogonal weights, nothing after the last."""
    sizes = (size, HIDDEN, *widths)
    activations = [Activation.RELU] * len(widths) + [Activation.NONE]
    layers = [Dense(*each) for each in zip(sizes[:-1], sizes[1:], activations, strict=True)]
    for layer in layers:
        nn.init.orthogonal_(layer.weight, gain=2**0.5)
        nn.init.zeros_(layer.bias)
    return numbered(layers)


def _under(prefix: str, state: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {
        key.removeprefix(f"{prefix}."): value for key, value in state.items() if key.startswith(f"{prefix}.")
    }
