"""The networks: one policy, and one critic with an extrinsic and an intrinsic value."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn

from questloop.dense import Activation, Dense, numbered
from questloop.env.observers import WHITE_MOST

HIDDEN = (256, 256)
SPREAD_LEAST = 0.1
"""A component that hardly varies is not blown up beyond this."""
CLOSED = -1e9
"""Logit of an action that the profile does not offer: finite, since 0 * inf has no gradient."""
_Layer = TypeVar("_Layer", bound=nn.Linear | nn.Conv2d)


class VectorModule(TorchRLModule, ValueFunctionAPI):
    """MLP 256 for vector observations.

    Policy and critic share no layer: returns reach the tens here, and their gradients would drown the
    policy's; apart, the critic can also be re-fitted alone when the potential changes.

    With WHITEN both see the observation by mean and spread of the first rollout: a key is 0.25 of a component
    that is 0 nearly always, beside positions that vary by 1.

    Where the last numbers of the observation say where to go, `lead` [those numbers, actions] of the model's
    configuration is what they add to the logits beside what is learned.
    """

    shares_layers = False
    policy: nn.Module
    critic: nn.Module
    centre: Tensor
    scale: Tensor
    closed: Tensor
    lead: Tensor | None

    def setup(self) -> None:
        size, actions = self.observation_space.shape[0], int(self.action_space.n)
        self.policy = mlp(size, actions, gain=0.01)
        self.critic = mlp(size, 2, gain=1.0)
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.register_buffer("closed", closed(self.model_config, actions))
        lead = self.model_config.get("lead") if isinstance(self.model_config, dict) else None
        self.register_buffer("lead", None if lead is None else torch.tensor(lead))

    def logits(self, obs: Tensor) -> Tensor:
        """`[B, actions]` of `obs[B, D]`."""
        learned = self.policy(self._white(obs)) + self.closed
        return learned if self.lead is None else learned + obs[:, -len(self.lead) :] @ self.lead

    def values(self, obs: Tensor) -> Tensor:
        """`[B, 2]`: extrinsic and intrinsic value of `obs[B, D]`."""
        return self.critic(self._white(obs))

    def whiten(self, obs: Tensor) -> None:
        """See observations by the mean and spread of `obs[B, D]` from now on."""
        self.centre.copy_(obs.mean(0))
        self.scale.copy_(1 / obs.std(0).clamp(min=SPREAD_LEAST))

    def _white(self, obs: Tensor) -> Tensor:
        return ((obs - self.centre) * self.scale).clamp(-WHITE_MOST, WHITE_MOST)

    def critic_parameters(self) -> list[nn.Parameter]:
        """Those that no action depends on."""
        return list(self.critic.parameters())

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.logits(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """`[B]`: RLlib's one value, the extrinsic one."""
        return self.values(batch[Columns.OBS])[:, 0]


class VisualModule(VectorModule):
    """CNN for stacked frames u8[B, 7, 72, 80], with a policy head and a value head of their own.

    The three convolutions are those of Mnih et al. 2015; the heads are MLPs of one hidden layer.
    """

    shares_layers = True

    def setup(self) -> None:
        """Make the layers; RLlib calls it once."""
        channels, actions = self.observation_space.shape[0], int(self.action_space.n)
        layers = []
        for width, kernel, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            layers += [_orthogonal(nn.Conv2d(channels, width, kernel, stride), 2**0.5), nn.ReLU()]
            channels = width
        self.trunk = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            size = self.trunk(torch.zeros(1, *self.observation_space.shape)).shape[1]
        self.policy = _head(size, actions, gain=0.01)
        self.critic = _head(size, 2, gain=1.0)
        self.register_buffer("closed", closed(self.model_config, actions))

    def logits(self, obs: Tensor) -> Tensor:
        return self.policy(self._see(obs)) + self.closed

    def values(self, obs: Tensor) -> Tensor:
        return self.critic(self._see(obs))

    def logits_and_values(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Both, with one look at `obs`."""
        seen = self._see(obs)
        return self.policy(seen) + self.closed, self.critic(seen)

    def whiten(self, obs: Tensor) -> None:
        """Pixels are seen as they are."""

    def _see(self, obs: Tensor) -> Tensor:
        return self.trunk(obs.float() / 255)


def closed(model_config: Any, actions: int) -> Tensor:
    """`[actions]`, what is added to the logits: `CLOSED` for those that `action_mask` leaves out, else 0."""
    mask = model_config.get("action_mask") if isinstance(model_config, dict) else None
    return torch.zeros(actions) if mask is None else torch.where(torch.tensor(mask), 0.0, CLOSED)


def _head(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    hidden = HIDDEN[-1]
    return numbered(
        [
            _orthogonal(Dense(inputs, hidden, Activation.RELU), 2**0.5),
            _orthogonal(Dense(hidden, outputs), gain),
        ]
    )


def mlp(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Tanh layers of `HIDDEN` units, orthogonal, and a linear head scaled by `gain`."""
    sizes = (inputs, *HIDDEN)
    hidden = [_orthogonal(Dense(*size, Activation.TANH), 2**0.5) for size in pairwise(sizes)]
    return numbered([*hidden, _orthogonal(Dense(sizes[-1], outputs), gain)])


def _orthogonal(layer: _Layer, gain: float) -> _Layer:
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
