"""Networks: one policy and one critic with an extrinsic and an intrinsic head, apart from each other."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn

HIDDEN = (256, 256)


class VectorModule(TorchRLModule, ValueFunctionAPI):
    """MLP 256 for vector observations.

    Policy and critic share no layer: returns reach the tens here, and their gradients would drown the
    policy's; apart, the critic can also be re-fitted alone when the potential changes.
    """

    policy: nn.Module
    critic: nn.Module

    def setup(self) -> None:
        size, actions = self.observation_space.shape[0], int(self.action_space.n)
        self.policy = mlp(size, actions, gain=0.01)
        self.critic = mlp(size, 2, gain=1.0)

    def logits(self, obs: Tensor) -> Tensor:
        """`[B, actions]` of `obs[B, D]`."""
        return self.policy(obs)

    def values(self, obs: Tensor) -> Tensor:
        """`[B, 2]`: extrinsic and intrinsic value of `obs[B, D]`."""
        return self.critic(obs)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.logits(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """`[B]`: RLlib's one value, the extrinsic one."""
        return self.values(batch[Columns.OBS])[:, 0]


def mlp(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Tanh layers of `HIDDEN` units, orthogonal, and a linear head scaled by `gain`."""
    layers: list[nn.Module] = []
    for width in HIDDEN:
        layers += [_orthogonal(nn.Linear(inputs, width), 2**0.5), nn.Tanh()]
        inputs = width
    return nn.Sequential(*layers, _orthogonal(nn.Linear(inputs, outputs), gain))


def _orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
