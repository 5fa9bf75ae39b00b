"""Fits the reward model: Bradley-Terry on segments and states, all members of the ensemble side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from questloop.reward_model.network import MEMBERS, Ensemble, RewardReading
from questloop.reward_model.preferences import Pool, Preferences

LR = 1e-3
WEIGHT_DECAY = 0.05
LABEL_NOISE = 0.1
LOGIT_LIMIT = 50.0
STD_FLOOR = 0.1
NEVER_MOVED = 1e6
MAX_STEPS = 600
CHECK_EVERY = 20
PATIENCE = 5
SEGMENTS_PER_STEP = 128
POINTS_PER_STEP = 8
END_POINTS = 3
PAIRS_PER_STEP = 512


@dataclass(frozen=True)
class Source:
    """Segments or states, the fold of each i64 [S], and the comparisons that are learned from."""

    data: Pool
    fold: NDArray[np.int64]
    learned: Preferences


def fit(
    sources: Sequence[Source],
    *,
    reading: RewardReading,
    gamma: float,
    seed: int,
    progress: Callable[[int], None] = lambda step: None,
) -> tuple[Ensemble, int]:
    """An ensemble trained on the comparisons of all `sources`, and the steps it took.

    Member m never sees fold m, which is held out to measure it, and is stopped early by fold m + 1: it trains
    on the comparisons among the other folds. A step takes the comparisons among some segments and computes R
    once for each of their observations; so with states. The losses of the sources are added.
    """
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    ensemble = Ensemble(*_whitening([source.data for source in sources]), generator)
    optimiser = torch.optim.AdamW(ensemble.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    lessons = [_Lesson(source, reading, gamma) for source in sources]
    best = _Best(ensemble)
    for step in range(1, MAX_STEPS + 1):
        optimiser.zero_grad()
        torch.stack([lesson.loss(ensemble, rng, generator) for lesson in lessons]).sum().backward()
        optimiser.step()
        if step % CHECK_EVERY == 0:
            progress(step)
            stopping = torch.stack([lesson.stopping_loss(ensemble) for lesson in lessons])
            if not best.takes(stopping.sum(dim=0), step):
                break
    best.restore()
    return ensemble, step


class _Lesson:
    """What is drawn from a source, step by step."""

    def __init__(self, source: Source, reading: RewardReading, gamma: float) -> None:
        self._source, self._reading, self._gamma = source, reading, gamma
        self._points = torch.from_numpy(source.data.points)
        learned = source.learned
        self._a, self._b, self._label, self._weight = (
            torch.from_numpy(each) for each in (learned.a, learned.b, learned.label, learned.weight)
        )
        self._compared = np.unique([learned.a, learned.b])
        masks = roles(source.fold, learned)
        self._trains, self._stops = (torch.from_numpy(role.astype(np.float32)) for role in masks)
        self._stopping = self._stops.any(dim=0).nonzero().squeeze(1)

    def loss(self, ensemble: Ensemble, rng: np.random.Generator, generator: torch.Generator) -> Tensor:
        """Of some of the comparisons that train each member, f32 [MEMBERS]."""
        chosen, pairs = _batch(self._compared, self._source.learned, rng)
        columns = _columns(self._reading, self._points.shape[1], rng)
        outputs = _outputs(ensemble, self._points[chosen][:, columns], generator)
        values = torch.zeros(MEMBERS, len(self._points))
        values[:, chosen] = read(outputs, self._reading, self._gamma)
        return self._of(values, pairs, self._trains)

    def stopping_loss(self, ensemble: Ensemble) -> Tensor:
        """Of the comparisons that stop each member, f32 [MEMBERS]."""
        values = evaluate(ensemble, self._points, self._reading, self._gamma)
        return self._of(values, self._stopping, self._stops)

    def _of(self, values: Tensor, pairs: Tensor, role: Tensor) -> Tensor:
        logits = values.index_select(1, self._a[pairs]) - values.index_select(1, self._b[pairs])
        return preference_loss(logits, self._label[pairs], self._weight[pairs] * role[:, pairs])


def roles(fold: NDArray[np.int64], learned: Preferences) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks bool [MEMBERS, P]: the comparisons that train a member, and those that stop it."""
    held_out = np.arange(MEMBERS)[:, None]
    stopping = (held_out + 1) % MEMBERS
    a, b = fold[learned.a], fold[learned.b]
    trains = (a != held_out) & (b != held_out) & (a != stopping) & (b != stopping)
    return trains, (a == stopping) & (b == stopping)


@torch.no_grad()
def evaluate(ensemble: Ensemble, points: Tensor, reading: RewardReading, gamma: float) -> Tensor:
    """Values of every member, f32 [MEMBERS, S], of segments or states with all their points f32 [S, K, D]."""
    points = points[:, _columns(reading, points.shape[1], None)]
    outputs = torch.cat([_outputs(ensemble, some) for some in points.split(SEGMENTS_PER_STEP)], dim=1)
    return read(outputs, reading, gamma)


def read(outputs: Tensor, reading: RewardReading, gamma: float) -> Tensor:
    """Values [..., S] of segments from R at their observations [..., S, K]; of a state it is R.

    `MEAN`: the mean of R. `DIFFERENCE`: `gamma R(last) - R(first)`, what R would pay as a potential.
    """
    if reading is RewardReading.MEAN or outputs.shape[-1] == 1:
        return outputs.mean(dim=-1)
    return gamma * outputs[..., -1] - outputs[..., 0]


def preference_loss(logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
    """`-sum w [y log p + (1 - y) log(1 - p)] / sum w` of every row of `logits` [M, P]; 0 without weight.

    `p = (1 - eps) sigmoid(logit) + eps / 2` with eps = 0.1, logits limited to +-50. Source: Christiano et al.
    2017, "Deep reinforcement learning from human preferences", section 2.2.
    """
    logits = logits.clamp(-LOGIT_LIMIT, LOGIT_LIMIT)
    log_p = torch.log((1 - LABEL_NOISE) * torch.sigmoid(logits) + LABEL_NOISE / 2)
    log_not_p = torch.log((1 - LABEL_NOISE) * torch.sigmoid(-logits) + LABEL_NOISE / 2)
    loss = -(weight * (label * log_p + (1 - label) * log_not_p)).sum(dim=-1)
    return loss / weight.sum(dim=-1).clamp(min=1e-8)


class _Best:
    """The weights of each member where its own loss was lowest."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._parameters = [parameter.data for parameter in ensemble.parameters()]
        self._kept = [parameter.clone() for parameter in self._parameters]
        self._losses = torch.full((MEMBERS,), torch.inf)
        self._last_gain = 0

    def takes(self, losses: Tensor, step: int) -> bool:
        """Keep the members that improved; False once none has for long."""
        better = losses < self._losses - 1e-4
        self._losses = torch.where(better, losses, self._losses)
        for kept, parameter in zip(self._kept, self._parameters, strict=True):
            kept[better] = parameter[better]
        if better.any():
            self._last_gain = step
        return step - self._last_gain < PATIENCE * CHECK_EVERY

    def restore(self) -> None:
        """Set the ensemble to what was kept."""
        for kept, parameter in zip(self._kept, self._parameters, strict=True):
            parameter.copy_(kept)


def _outputs(ensemble: Ensemble, points: Tensor, dropout: torch.Generator | None = None) -> Tensor:
    """R of every member, f32 [MEMBERS, S, K], at observations f32 [S, K, D]."""
    return ensemble(points.flatten(0, 1), dropout).unflatten(1, points.shape[:2])


def _whitening(pools: Sequence[Pool]) -> tuple[Tensor, Tensor]:
    """Mean and deviation f32 [D] of the observations; no deviation below 0.1, so that a feature that hardly
    ever moves does not drown the others when it does. One that never moved is kept out: nothing is known of
    what it would mean."""
    seen = np.concatenate([data.points.reshape(-1, data.points.shape[-1]) for data in pools])
    std = np.maximum(seen.std(axis=0), STD_FLOOR)
    std[np.ptp(seen, axis=0) == 0] = NEVER_MOVED
    return torch.from_numpy(seen.mean(axis=0)), torch.from_numpy(std.astype(np.float32))


def _batch(
    segments: NDArray[np.int64], learned: Preferences, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Some of the segments, and the indices of the comparisons among them."""
    pairs = np.arange(len(learned))
    if len(segments) > SEGMENTS_PER_STEP:
        drawn = np.zeros(segments.max() + 1, np.bool_)
        segments = rng.choice(segments, SEGMENTS_PER_STEP, replace=False)
        drawn[segments] = True
        pairs = np.flatnonzero(drawn[learned.a] & drawn[learned.b])
    if len(pairs) > PAIRS_PER_STEP:
        pairs = rng.choice(pairs, PAIRS_PER_STEP, replace=False)
    return torch.from_numpy(segments), torch.from_numpy(pairs)


def _columns(reading: RewardReading, points: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
    """Which of `points` points are looked at: for the difference the ends, else some of all.

    In training, by `rng`, the ends wander by up to a fifteenth of the segment and the others are random:
    otherwise members learn a few hundred observations by heart.
    """
    if points == 1:
        return np.zeros(1, np.int64)
    if reading is RewardReading.DIFFERENCE:
        shift = np.zeros(2, np.int64) if rng is None else rng.integers(0, END_POINTS, 2)
        return np.array([shift[0], points - 1 - shift[1]])
    if rng is None:
        return np.linspace(0, points - 1, POINTS_PER_STEP).round().astype(np.int64)
    return np.sort(rng.choice(points, POINTS_PER_STEP, replace=False))
