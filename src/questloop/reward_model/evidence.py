"""Measures trust in a reward model without judges: states after a milestone must be worth more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from questloop.reward_model.measures import RESAMPLES

EACH = 3
"""states of an episode that stand for the time between two of its milestones"""


@dataclass(frozen=True)
class EpisodeStates:
    """Some states of an episode that reached a milestone, in the order of play.

    `observations`: f32 [K, D]. `stage`: i64 [K], how many of `milestones` were reached by then; `milestones`
    are those first reached in this episode, in order.
    """

    episode: str
    observations: NDArray[np.float32]
    stage: NDArray[np.int64]
    milestones: tuple[str, ...]


@dataclass(frozen=True)
class Trust:
    """Share of an episode's pairs of states, one before and one after a milestone, that are ordered right.

    The mean of `episodes` held-out episodes with its 95% interval; NaN where there are none. `milestones`:
    the same share of the pairs around one milestone, by its name.
    """

    value: float
    low: float
    high: float
    episodes: int
    milestones: dict[str, float]

    @classmethod
    def unknown(cls) -> Trust:
        """Of no episode at all."""
        return cls(float("nan"), float("nan"), float("nan"), 0, {})


def episode_states(
    episode: str,
    steps: NDArray[np.int64],
    observations: NDArray[np.float32],
    milestones: Mapping[str, int],
) -> EpisodeStates | None:
    """Up to `EACH` states a stage out of those that are there; None where all are of one stage.

    Args:
        episode: its id.
        steps: i64 [L], the step of the episode that led to each observation, rising.
        observations: f32 [L, D].
        milestones: the step at which each was first reached in this episode.
    """
    names = sorted(milestones, key=lambda name: (milestones[name], name))
    stage = np.searchsorted([milestones[name] for name in names], steps, side="right")
    if not len(stage) or stage[0] == stage[-1]:
        return None
    chosen = [_spread(np.flatnonzero(stage == each)) for each in np.unique(stage)]
    index = np.concatenate(chosen)
    return EpisodeStates(episode, observations[index], stage[index].astype(np.int64), tuple(names))


def trust(
    evidence: Sequence[EpisodeStates], values: Sequence[NDArray[np.float64]], rng: np.random.Generator
) -> Trust:
    """How far `values` f64 [K] of the states of each episode rise with its milestones.

    An episode counts once, however many pairs it has. The interval is the wider of a bootstrap over episodes
    and of Clopper and Pearson (1934) with episodes as trials: five that are all right are no proof.
    """
    shares, around = [], dict[str, list[float]]()
    for states, value in zip(evidence, values, strict=True):
        a, b = np.nonzero(states.stage[:, None] < states.stage)
        right = (np.sign(value[b] - value[a]) + 1) / 2
        shares.append(right.mean())
        for name, share in _around(states, a, b, right):
            around.setdefault(name, []).append(share)
    if not shares:
        return Trust.unknown()
    mean = float(np.mean(shares))
    low, high = _interval(np.array(shares), rng)
    by_name = {name: round(float(np.mean(each)), 6) for name, each in sorted(around.items())}
    return Trust(mean, low, high, len(shares), by_name)


def _around(
    states: EpisodeStates, a: NDArray[np.intp], b: NDArray[np.intp], right: NDArray[np.float64]
) -> list[tuple[str, float]]:
    """Each milestone between two stages that follow one another, and the share of their pairs."""
    found = []
    stages = np.unique(states.stage).tolist()
    for before, after in pairwise(stages):
        pairs = (states.stage[a] == before) & (states.stage[b] == after)
        found += [(name, float(right[pairs].mean())) for name in states.milestones[before:after]]
    return found


def _interval(shares: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    n, right = len(shares), float(shares.sum())
    drawn = shares[rng.integers(0, n, (RESAMPLES, n))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    lowest = beta.ppf(0.025, right, n - right + 1) if right > 0 else 0.0
    highest = beta.ppf(0.975, right + 1, n - right) if right < n else 1.0
    return float(min(low, lowest)), float(max(high, highest))


def _spread(index: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most `EACH` of them at even distances."""
    return index[np.unique(np.linspace(0, len(index) - 1, min(EACH, len(index))).round().astype(np.int64))]
