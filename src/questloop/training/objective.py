"""What an update minimises on a batch: the losses of policy and critic, with those of demonstrations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from questloop.training.imitation import Imitation
from questloop.training.loss import LossWeights, policy_loss, value_loss

Minibatch = tuple[Tensor, Tensor]
"""Rows of the batch, and rows of the demonstrations."""


@dataclass(frozen=True)
class Objective:
    """Losses of minibatches of one batch of `B` steps; each gives the loss and its statistics."""

    network: Any  # `VectorModule` or `VisualModule`
    obs: Tensor  # [B, *shape]
    action: Tensor  # [B]
    logp: Tensor  # [B], of the action under the policy that played
    played: Tensor  # bool [B]: by the policy, which learns from no other
    advantage: Tensor  # [B]
    targets: Tensor  # [B, 2], extrinsic and intrinsic
    weights: LossWeights
    imitation: Imitation | None  # None: no demonstrations

    def policy(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """PPO's loss of the policy, and the imitation loss where there are demonstrations."""
        rows, chosen = minibatch
        rows = rows[self.played[rows]]
        loss, statistics = self._of_logits(rows, self.network.logits(self.obs.index_select(0, rows)))
        if self.imitation is not None:
            logits = self.network.logits(self.imitation.obs[chosen])
            loss = loss + self.imitation.policy_loss(logits, chosen)
        return loss, statistics

    def critic(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """The squared error of both value streams, and that of demonstrations that did better (SIL)."""
        rows, chosen = minibatch
        loss, statistics = self._of_values(rows, self.network.values(self.obs.index_select(0, rows)))
        if self.imitation is not None and self.imitation.sil_coef:
            values = self.network.values(self.imitation.obs[chosen])[:, 0]
            loss = loss + self.imitation.value_loss(values, chosen)
        return loss, statistics

    def both(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """Policy and critic together, where they share layers; without demonstrations."""
        rows, _ = minibatch
        logits, values = self.network.logits_and_values(self.obs.index_select(0, rows))
        played = self.played[rows]
        first, statistics = self._of_logits(rows[played], logits[played])
        second, more = self._of_values(rows, values)
        return first + second, torch.cat([statistics, more])

    def _of_logits(self, rows: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        return policy_loss(logits, self.action[rows], self.logp[rows], self.advantage[rows], self.weights)

    def _of_values(self, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return value_loss(values, self.targets[rows], self.weights)
