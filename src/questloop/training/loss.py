"""The PPO loss of policy and critic."""

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


POLICY_STATISTICS = ("policy_loss", "entropy", "kl", "clip_fraction")
VALUE_STATISTICS = ("vf_loss",)


def policy_loss(
    logits: Tensor, action: Tensor, logp: Tensor, advantage: Tensor, weights: LossWeights
) -> tuple[Tensor, Tensor]:
    """Clipped surrogate less the entropy bonus (Schulman et al. 2017, eq. 7 and 9), and `POLICY_STATISTICS`.

    `logits[B, A]`; `action, logp, advantage`: `[B]`. `kl` is the estimator `(r - 1) - log r` of the
    divergence KL(old || new).
    """
    log_policy = torch.log_softmax(logits, dim=-1)
    log_ratio = log_policy.gather(1, action[:, None]).squeeze(1) - logp
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1 - weights.clip, 1 + weights.clip)
    surrogate = -_mean(torch.min(advantage * ratio, advantage * clipped_ratio))
    entropy = -_mean((log_policy.exp() * log_policy).sum(1))
    with torch.no_grad():
        kl = _mean(ratio - 1 - log_ratio)
        clipped = _mean(((ratio - 1).abs() > weights.clip).float())
        statistics = torch.stack([surrogate, entropy, kl, clipped])
    return surrogate - weights.entropy_coef * entropy, statistics


def _mean(of_steps: Tensor) -> Tensor:
    """The mean; 0 of no step, where a planner played them all."""
    return of_steps.sum() / max(1, len(of_steps))


def value_loss(values: Tensor, targets: Tensor, weights: LossWeights) -> tuple[Tensor, Tensor]:
    """Squared error of every value stream, and `VALUE_STATISTICS`; `values, targets`: `[B, S]`.

    As in RLlib, `value_clip` bounds each squared error, so that an outlier's gradient is dropped.
    """
    loss = (values - targets).square().clamp(max=weights.value_clip).sum(1).mean()
    return loss, loss.detach()[None]
