"""Turns judges' scores into preferences: which segments and states are compared, and how it came out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from questloop.errors import BadDataError

POINTS = 32
MAX_PAIRS = 100_000
LENGTH_RATIO = 0.9
SPREAD_FLOOR = 0.1


@dataclass(frozen=True)
class ScoredSegment:
    """A segment with its score, as the pipeline hands it in.

    `observations`: f32 [L, 128], what the policy saw. `score`: the judges' weighted score, 0..1. `spread`:
    deviation of their votes, 0 where they agree. `outcome`: what is known to have followed and no judge saw,
    larger is better, or None.
    """

    episode: str
    observations: NDArray[np.float32]
    score: float
    spread: float = 0.0
    outcome: float | None = None


@dataclass(frozen=True)
class ScoredState:
    """A state with its score: one of the distinct cells that were judged.

    `name`: its cell's id. `episode`: that in which it was first seen; None: it was imagined, and is learned
    from by all members and held out by none. `observation`: f32 [128]. `score`: how far along the quest it
    is, 0..1. `spread`: of the judges' votes.
    """

    name: str
    episode: str | None
    observation: NDArray[np.float32]
    score: float
    spread: float = 0.0


@dataclass(frozen=True)
class Pool:
    """S segments, or S states, of equal shape, which training can draw from quickly.

    `points`: f32 [S, K, D], observations at even distances, the first and the last among them; K is `POINTS`
    for segments and 1 for states. `length`, `episode` (index into `episodes`; -1: of none), `score`, `spread`
    and `outcome` (NaN: unknown): [S].
    """

    points: NDArray[np.float32]
    length: NDArray[np.int64]
    episode: NDArray[np.int64]
    score: NDArray[np.float64]
    spread: NDArray[np.float64]
    outcome: NDArray[np.float64]
    episodes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.length)


@dataclass(frozen=True)
class Preferences:
    """P comparisons of segments `a` and `b` (indices into a pool).

    `label` is P(a is better), `weight` how much it counts. A tie is a label of 0.5 and is kept: it says that
    neither is better.
    """

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    label: NDArray[np.float32]
    weight: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Preferences:
        return Preferences(self.a[chosen], self.b[chosen], self.label[chosen], self.weight[chosen])

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int, float]]) -> Preferences:
        """Comparisons `(a, b, P(a is better))` that a judge made side by side, each with a weight of 1."""
        rows = list(pairs)
        a, b, label = (np.array([row[column] for row in rows]) for column in range(3))
        return cls(
            a.astype(np.int64), b.astype(np.int64), label.astype(np.float32), np.ones(len(rows), np.float32)
        )

    @classmethod
    def joined(cls, parts: Iterable[Preferences]) -> Preferences:
        """One after the other."""
        columns = zip(*((each.a, each.b, each.label, each.weight) for each in (_NONE, *parts)), strict=True)
        return cls(*map(np.concatenate, columns))


def pool(segments: Iterable[ScoredSegment]) -> Pool:
    """Take in segments one by one, keeping `POINTS` observations of each.

    Raises `BadDataError` for a segment that is empty or holds a value that is not finite.
    """
    points, lengths, numbers = [], [], []
    episodes: dict[str, int] = {}
    for index, segment in enumerate(segments):
        observations = np.asarray(segment.observations, np.float32)
        if observations.ndim != 2 or not len(observations):
            raise BadDataError(f"judged segment {index} of {segment.episode} has no observations")
        at = np.linspace(0, len(observations) - 1, POINTS).round().astype(np.int64)
        points.append(observations[at])
        lengths.append(len(observations))
        followed = np.nan if segment.outcome is None else segment.outcome
        episode = episodes.setdefault(segment.episode, len(episodes))
        numbers.append((episode, segment.score, segment.spread, followed))
        if not (np.isfinite(points[-1]).all() and np.isfinite(numbers[-1][1:3]).all()):
            raise BadDataError(
                f"judged segment {index} of {segment.episode}: an observation, score or spread is not finite"
            )
    if not points:
        raise BadDataError("no judged segments: run `questloop evaluate` first")
    episode, score, spread, outcome = np.array(numbers, np.float64).T
    return Pool(
        np.stack(points), np.array(lengths), episode.astype(np.int64), score, spread, outcome, tuple(episodes)
    )


def state_pool(states: Iterable[ScoredState]) -> Pool | None:
    """States as a pool; None where there are none. Raises `BadDataError` for a value that is not finite."""
    listed = list(states)
    if not listed:
        return None
    episodes: dict[str, int] = {}
    for state in listed:
        if state.episode is not None:
            episodes.setdefault(state.episode, len(episodes))
    points = np.stack([state.observation for state in listed])[:, None].astype(np.float32)
    score, spread = np.array([(state.score, state.spread) for state in listed], np.float64).T
    bad = ~(np.isfinite(points).all(axis=(1, 2)) & np.isfinite(score) & np.isfinite(spread))
    if bad.any():
        name = listed[int(bad.argmax())].name
        raise BadDataError(f"cell {name}: an observation, score or spread is not finite")
    numbers = [-1 if state.episode is None else episodes[state.episode] for state in listed]
    episode = np.array(numbers, np.int64)
    unknown = np.full(len(listed), np.nan)
    return Pool(points, np.ones(len(listed), np.int64), episode, score, spread, unknown, tuple(episodes))


def preferences(
    segments: Pool, among: NDArray[np.int64], rng: np.random.Generator, limit: int = MAX_PAIRS
) -> Preferences:
    """At most `limit` comparisons among the segments with indices `among`.

    The label is `sigmoid((score_a - score_b) / t)`, t the deviation of the scores of what was played, so that
    the judges' scale does not matter and what lies far ahead hides no small differences; equal scores are a
    tie. The weight is `f^2 / (f^2 + spread_a^2 + spread_b^2)`, f = 0.1.

    Only segments of about equal length are compared, and the longer is as often the better as the worse, so
    that length alone tells nothing (github.com/HumanCompatibleAI/imitation/issues/324).
    """
    a, b = _matched(segments.length[among], rng, limit)
    a, b = among[a], among[b]
    played = segments.score[segments.episode >= 0]
    scale = max(float(played.std()), 1e-6)
    label = 1 / (1 + np.exp(-(segments.score[a] - segments.score[b]) / scale))
    doubt = segments.spread[a] ** 2 + segments.spread[b] ** 2
    weight = SPREAD_FLOOR**2 / (SPREAD_FLOOR**2 + doubt)
    made = Preferences(a, b, label.astype(np.float32), weight.astype(np.float32))
    return made[_balanced(segments.length, made)]


def _matched(
    length: NDArray[np.int64], rng: np.random.Generator, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random pairs of positions whose lengths differ by at most a tenth, each pair once, in random order."""
    n = len(length)
    if n * (n - 1) // 2 <= 4 * limit:
        a, b = np.triu_indices(n, k=1)
    else:
        a, b = rng.integers(0, n, (2, 4 * limit))
        code = np.unique(np.minimum(a, b) * n + np.maximum(a, b))
        a, b = code // n, code % n
    ratio = np.minimum(length[a], length[b]) / np.maximum(length[a], length[b])
    chosen = rng.permutation(np.flatnonzero((a != b) & (ratio >= LENGTH_RATIO)))[:limit]
    swapped = rng.random(len(chosen)) < 0.5
    return np.where(swapped, b[chosen], a[chosen]), np.where(swapped, a[chosen], b[chosen])


def _balanced(length: NDArray[np.int64], made: Preferences) -> NDArray[np.int64]:
    """Indices without the surplus of comparisons in which the longer (or the shorter) segment is better."""
    longer_is_better = np.sign(length[made.a] - length[made.b]) * np.sign(made.label - 0.5)
    for_longer, for_shorter = np.flatnonzero(longer_is_better > 0), np.flatnonzero(longer_is_better < 0)
    n = min(len(for_longer), len(for_shorter))
    kept = [np.flatnonzero(longer_is_better == 0), for_longer[:n], for_shorter[:n]]
    return np.sort(np.concatenate(kept))


def from_comparisons(comparisons: Sequence[tuple[int, int, float, float]]) -> Preferences:
    """Preferences of judges who saw two segments side by side: (a, b, P(a is better), weight) each."""
    a, b, label, weight = np.array(comparisons, np.float64).reshape(-1, 4).T
    return Preferences(
        a.astype(np.int64), b.astype(np.int64), label.astype(np.float32), weight.astype(np.float32)
    )


_NONE = from_comparisons([])
