"""Imitation of the segments that judges liked best: AWR, and SIL on top of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from questloop.episodes.reader import SegmentReader, SegmentView
from questloop.episodes.segment import EpisodeOutcome
from questloop.game.actions import BUTTONS
from questloop.judges.scores import read_scores
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store

AWR_BETA = 1.0
AWR_MOST = 20.0
"""largest weight of a step (Peng et al. 2019)"""
AWR_COEF = 0.1
"""of the imitation loss beside PPO's"""
SIL_VALUE_BETA = 0.01
"""of the value loss beside the policy's (Oh et al. 2018)"""


@dataclass(frozen=True)
class Demonstration:
    """Consecutive steps of a segment, as the policy lived through them."""

    obs: NDArray[np.float32]
    """[L + 1, D]: before every step, and after the last"""
    action: NDArray[np.int64]
    """[L]"""
    reward: NDArray[np.float32]
    """[L], the environment's own, unshaped"""
    terminated: bool
    """the episode was over after the last step, for good"""

    def returns(self, after: float, gamma: float) -> NDArray[np.float32]:
        """Discounted sums of the raw rewards `[L]`; `after` is the value of what follows the last step."""
        running = 0.0 if self.terminated else after
        found = np.empty(len(self.reward), np.float32)
        for step in range(len(self.reward) - 1, -1, -1):
            running = float(self.reward[step]) + gamma * running
            found[step] = running
        return found


def demonstrations(store: Store, epoch: int, top_k: int) -> tuple[Demonstration, ...]:
    """The `top_k` segments with the best score of the newest judged epoch before `epoch`; none without one.

    Where scores are equal, the episode with the higher raw return comes first.
    """
    if not top_k:
        return ()
    judged = next((e for e in range(epoch - 1, -1, -1) if read_commit(store, e, Stage.EVALUATE)), None)
    if judged is None:
        return ()
    reader = SegmentReader(store)
    stored = set(reader.list(judged))
    episodes = {record.id: record for record in reader.episodes(judged)}
    ranked = sorted(
        (
            line
            for line in read_scores(store, judged)
            if line.weighted is not None and line.segment_id in stored
        ),
        key=lambda line: (-(line.weighted or 0.0), -episodes[line.episode_id].raw_return, line.segment_id),
    )
    return tuple(
        _read(reader.load(line.segment_id), episodes[line.episode_id].outcome is EpisodeOutcome.TERMINATED)
        for line in ranked[:top_k]
    )


def _read(segment: SegmentView, episode_terminated: bool) -> Demonstration:
    """Line i holds what was seen after step i: each action belongs to the observation of the line before."""
    lines = segment.states[1:]
    return Demonstration(
        obs=segment.observations,
        action=np.array([BUTTONS[line["action"]] for line in lines], np.int64),
        reward=np.array([sum(line["reward"].values()) for line in lines], np.float32),
        terminated=segment.manifest.last and episode_terminated,
    )


@dataclass(frozen=True)
class Imitation:
    """Demonstrations as a learner uses them in one update, weighed by its critic of the moment."""

    obs: Tensor
    """[B, D]"""
    action: Tensor
    """[B]"""
    awr: Tensor
    """[B], weights 0..20"""
    gap: Tensor
    """[B], max(R - V, 0)"""
    target: Tensor
    """[B], the returns R as targets of a critic whose values are shaped"""
    sil_coef: float

    def to(self, device: Any) -> Imitation:
        """The same on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("obs", "action", "awr", "gap", "target")}
        return replace(self, **moved)

    def among(self, offered: Tensor) -> Imitation:
        """Without steps whose action `offered` bool[A] leaves out: a planner may press any button."""
        kept = offered[self.action]
        names = ("obs", "action", "awr", "gap", "target")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def policy_loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """What is added to the policy's loss; `logits` are those of `rows`."""
        logp = torch.log_softmax(logits, dim=-1).gather(1, self.action[rows, None]).squeeze(1)
        weight = AWR_COEF * self.awr[rows] + self.sil_coef * self.gap[rows]
        return -(weight * logp).mean()

    def value_loss(self, values: Tensor, rows: Tensor) -> Tensor:
        """What is added to the critic's loss; `values[b]` are the extrinsic ones of `rows`."""
        below = (self.target[rows] - values).clamp(min=0)
        return self.sil_coef * SIL_VALUE_BETA * 0.5 * below.square().mean()


def weigh(
    items: Sequence[Demonstration],
    values: Sequence[NDArray[np.float32]],
    potentials: Sequence[NDArray[np.float32]],
    gamma: float,
    sil_coef: float,
) -> Imitation:
    """Weights of every step: AWR's `min(exp(A / beta), 20)` of normalised advantages, SIL's `max(R - V, 0)`.

    `values[i]` and `potentials[i]`, both `[L + 1]`, belong to `items[i].obs`. A critic of returns that are
    shaped by a potential's change is lower by it (Ng et al. 1999), which is put back, since returns are raw;
    with another shaping, or none, `potentials` are 0.
    """
    raw = [value + phi for value, phi in zip(values, potentials, strict=True)]
    returns = np.concatenate(
        [item.returns(float(value[-1]), gamma) for item, value in zip(items, raw, strict=True)]
    )
    advantage = returns - np.concatenate([value[:-1] for value in raw])
    normal = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    weight = np.minimum(np.exp(normal / AWR_BETA), AWR_MOST)
    return Imitation(
        obs=torch.from_numpy(np.concatenate([item.obs[:-1] for item in items])),
        action=torch.from_numpy(np.concatenate([item.action for item in items])),
        awr=torch.from_numpy(weight.astype(np.float32)),
        gap=torch.from_numpy(np.maximum(advantage, 0).astype(np.float32)),
        target=torch.from_numpy(
            (returns - np.concatenate([phi[:-1] for phi in potentials])).astype(np.float32)
        ),
        sil_coef=sil_coef,
    )
