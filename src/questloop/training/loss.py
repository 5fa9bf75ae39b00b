"""The PPO loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossWeights:
    """Coefficients of the loss."""

    clip: float = 0.2
    value_clip: float = 10.0
    entropy_coef: float = 0.01


@dataclass(frozen=True)
class PPOLoss:
    """The loss of a minibatch and its parts, detached but for `total`."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    kl: Tensor  # the estimator (r - 1) - log r of KL(old || new)
    clipped: Tensor  # share of steps whose ratio was clipped


def ppo_loss(
    logits: Tensor,
    values: Tensor,
    action: Tensor,
    logp: Tensor,
    advantage: Tensor,
    targets: Tensor,
    weights: LossWeights,
) -> PPOLoss:
    """Clipped surrogate, clamped squared value error and entropy bonus (Schulman et al. 2017, eq. 9).

    `logits[B, A]`; `values[B, S]` and `targets[B, S]` of S value streams; `action, logp, advantage`: `[B]`.
    As in RLlib, `value_clip` bounds each squared error, so that an outlier's gradient is dropped.
    """
    log_policy = torch.log_softmax(logits, dim=-1)
    log_ratio = log_policy.gather(1, action[:, None]).squeeze(1) - logp
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1 - weights.clip, 1 + weights.clip)
    policy = -torch.min(advantage * ratio, advantage * clipped_ratio).mean()
    value = (values - targets).square().clamp(max=weights.value_clip).sum(1).mean()
    entropy = -(log_policy.exp() * log_policy).sum(1).mean()
    total = policy + value - weights.entropy_coef * entropy
    with torch.no_grad():
        kl = (ratio - 1 - log_ratio).mean()
        clipped = ((ratio - 1).abs() > weights.clip).float().mean()
    return PPOLoss(total, policy.detach(), value.detach(), entropy.detach(), kl, clipped)
