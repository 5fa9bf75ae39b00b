"""Trains the reward model on judged segments and states, and reports on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from questloop.reward_model import measures
from questloop.reward_model.evidence import EpisodeStates, Trust, trust
from questloop.reward_model.fit import MAX_STEPS, Source, evaluate, fit, roles
from questloop.reward_model.folds import same_play, split
from questloop.reward_model.measures import Accuracy, CalibrationBin
from questloop.reward_model.network import MEMBERS, Measured, RewardModel, RewardReading
from questloop.reward_model.preferences import (
    MAX_PAIRS,
    Pool,
    Preferences,
    ScoredSegment,
    ScoredState,
    pool,
    preferences,
    state_pool,
)

READING = RewardReading.DIFFERENCE
REFERENCE_SIZE = 1024
NOBODY = -1
"""fold of what no member holds out"""


@dataclass(frozen=True)
class ReadingReport:
    """What was found on held-out episodes.

    Accuracy of segments' values against the judges and against known outcomes (gold), and of R at states
    against the judges (cells); trust in R as a potential, which is what shaping needs; Brier score and
    calibration of P(a is better) of segments against the judges; the training steps taken.
    """

    judges: Accuracy
    gold: Accuracy
    cells: Accuracy
    trust: Trust
    brier: float
    calibration: list[CalibrationBin]
    steps: int


@dataclass(frozen=True)
class RewardModelReport:
    """What was learned and how far it is to be trusted; NaN stands for what could not be measured.

    Every segment and state is measured by the one member that never saw its fold; `held_out` counts the
    comparisons of segments for that, `learned` those that the members share, `ties` those of both without a
    better side, `cell_pairs` the comparisons of states that are learned from. `length_only` is the accuracy
    of preferring the longer segment, 0.5 where length tells nothing. `drift` is the mean absolute change of
    the potential on the reference set of the epoch before, `drift_correlation` Spearman's between the two.
    """

    sha256: str
    reading: RewardReading
    readings: dict[RewardReading, ReadingReport]
    segments: int
    episodes: int
    cells: int
    learned: int
    held_out: int
    ties: int
    cell_pairs: int
    length_only: float
    drift: float
    drift_correlation: float

    @property
    def accuracy(self) -> Accuracy:
        """Of segments, against the judges."""
        return self.readings[self.reading].judges

    @property
    def gold_accuracy(self) -> Accuracy:
        """Of segments, against known outcomes."""
        return self.readings[self.reading].gold

    @property
    def cell_accuracy(self) -> Accuracy:
        """Of states, against the judges."""
        return self.readings[self.reading].cells

    @property
    def trust(self) -> Trust:
        """Against the milestones of episodes."""
        return self.readings[self.reading].trust

    def to_json(self) -> dict[str, Any]:
        """Plain values, None for what could not be measured."""
        plain: dict[str, Any] = _without_nan(asdict(self))
        return plain


def train_reward_model(
    segments: Iterable[ScoredSegment],
    *,
    observation_version: int,
    gamma: float,
    seed: int,
    states: Iterable[ScoredState] = (),
    state_pairs: Iterable[tuple[str, str, float]] = (),
    evidence: Sequence[EpisodeStates] = (),
    comparisons: Preferences | None = None,
    previous: RewardModel | None = None,
    reading: RewardReading = READING,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[RewardModel, RewardModelReport]:
    """Train the ensemble on judged segments and states; measure it on episodes that its members did not see.

    Args:
        segments: with scores, in any order; their order is that of the indices in `comparisons`.
        observation_version: layout of their observations.
        gamma: the learner's discount.
        seed: of every random choice. The same seed and data give the same file.
        states: with scores; pairs of them are learned from beside pairs of segments, and R at a state is its
            value (Christiano et al. 2017, on clips of one frame; Motif, arXiv 2310.00166; RL-VLM-F,
            2402.03681).
        state_pairs: names of two states that were judged side by side, and P(the first is further).
        evidence: states of episodes that reached milestones; nothing is learned from it.
        comparisons: segments judged side by side, in place of comparisons that are made from scores.
        previous: the model of the epoch before: drift is measured on its reference set.
        reading: what a segment is worth.
        progress: told the steps done and the most there can be.

    Raises `BadDataError` for segments or states that cannot be used.
    """
    rng = np.random.default_rng(seed)
    data, cells = pool(segments), list(states)
    lessons = _lessons(data, state_pool(cells), cells, list(state_pairs), comparisons, rng)
    with _one_thread():
        ensemble, steps = fit(
            lessons.sources,
            reading=reading,
            gamma=gamma,
            seed=seed,
            progress=lambda step: progress(step, MAX_STEPS),
        )
        progress(MAX_STEPS, MAX_STEPS)
        model = RewardModel(
            ensemble, lessons.reference(rng), reading=reading, observation_version=observation_version
        )
        found = _measure(model, lessons, evidence, gamma, rng, steps)
        agreed = found.cells if found.cells.comparisons else found.judges
        model = model.with_measures(Measured(agreed.value, agreed.low, found.trust.value, found.trust.low))
        drift = _drift(previous, model)
    return model, _report(model, found, data, cells, lessons, drift, rng)


def _report(
    model: RewardModel,
    found: ReadingReport,
    data: Pool,
    cells: Sequence[ScoredState],
    lessons: _Lessons,
    drift: tuple[float, float],
    rng: np.random.Generator,
) -> RewardModelReport:
    held_out, length = lessons.held_out, data.length.astype(np.float64)
    by_length = measures.accuracy(length, held_out, data.episode, lessons.segments.fold, rng)
    return RewardModelReport(
        sha256=model.sha256,
        reading=model.reading,
        readings={model.reading: found},
        segments=len(data),
        episodes=len(data.episodes),
        cells=sum(state.episode is not None for state in cells),
        learned=len(lessons.segments.learned),
        held_out=len(held_out),
        ties=int((lessons.segments.learned.label == 0.5).sum() + (held_out.label == 0.5).sum()),
        cell_pairs=len(lessons.states.learned) if lessons.states else 0,
        length_only=by_length.value,
        drift=drift[0],
        drift_correlation=drift[1],
    )


@dataclass(frozen=True)
class _Lessons:
    """What is learned from and what is held out; `fold_of` by the id of an episode."""

    segments: Source
    states: Source | None
    fold_of: Mapping[str, int]
    held_out: Preferences
    states_held_out: Preferences

    @property
    def sources(self) -> list[Source]:
        return [source for source in (self.segments, self.states) if source is not None]

    @property
    def taught(self) -> set[int]:
        """Members that learned anything; the others are as they were drawn."""
        trained = [roles(source.fold, source.learned)[0].any(axis=1) for source in self.sources]
        return {int(member) for each in trained for member in np.flatnonzero(each)}

    def reference(self, rng: np.random.Generator) -> torch.Tensor:
        """Observations on which the potential has mean 0 and deviation 1: distinct states that were played,
        where there are any, so that places where play lingers weigh no more than others."""
        source = self.states or self.segments
        points = source.data.points[source.fold != NOBODY]
        rows = points.reshape(-1, points.shape[-1])
        chosen = rng.choice(len(rows), min(REFERENCE_SIZE, len(rows)), replace=False)
        return torch.from_numpy(rows[chosen])


def _lessons(
    data: Pool,
    cells: Pool | None,
    states: Sequence[ScoredState],
    pairs: Sequence[tuple[str, str, float]],
    comparisons: Preferences | None,
    rng: np.random.Generator,
) -> _Lessons:
    """Deal episodes into folds and make the comparisons."""
    pools = [each for each in (data, cells) if each is not None]
    ids = dict.fromkeys(name for each in pools for name in each.episodes)
    number = {name: index for index, name in enumerate(ids)}
    # The last entry is for what is of no episode.
    episodes = [np.array([*map(number.__getitem__, each.episodes), -1])[each.episode] for each in pools]
    played = [episode >= 0 for episode in episodes]
    parts = [(p.points[own], e[own]) for p, e, own in zip(pools, episodes, played, strict=True)]
    fold_of = split(same_play(*parts, episodes=len(number)), MEMBERS, rng)
    folds = [np.where(episode >= 0, fold_of[episode], NOBODY) for episode in episodes]
    learned = preferences(data, np.arange(len(data)), rng) if comparisons is None else comparisons
    segments = Source(data, folds[0], learned)
    taught = _taught(segments)
    if comparisons is None:
        held_out = _within_folds(segments, taught, rng)
    else:
        inside = folds[0][comparisons.a] == folds[0][comparisons.b]
        held_out = comparisons[inside & np.isin(folds[0][comparisons.a], taught)]
    source, states_held_out = None, Preferences.joined([])
    if cells is not None:
        index = {state.name: number for number, state in enumerate(states)}
        judged = Preferences.of((index[a], index[b], p) for a, b, p in pairs if a in index and b in index)
        made = preferences(cells, np.arange(len(cells)), rng)
        source = Source(cells, folds[1], Preferences.joined([made, judged]))
        states_held_out = _within_folds(source, _taught(source), rng)
    by_name = {name: int(fold_of[index]) for name, index in number.items()}
    return _Lessons(segments, source, by_name, held_out, states_held_out)


def _taught(source: Source) -> NDArray[np.intp]:
    """Members that learn anything of a source."""
    return np.flatnonzero(roles(source.fold, source.learned)[0].any(axis=1))


def _within_folds(source: Source, taught: NDArray[np.intp], rng: np.random.Generator) -> Preferences:
    """Comparisons within each fold whose member learned anything."""
    limit = MAX_PAIRS // MEMBERS
    inside = (np.flatnonzero(source.fold == member) for member in taught)
    return Preferences.joined(preferences(source.data, each, rng, limit) for each in inside)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The matrices are too small to share out, and the sums of one thread are the same on every machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _measure(
    model: RewardModel,
    lessons: _Lessons,
    evidence: Sequence[EpisodeStates],
    gamma: float,
    rng: np.random.Generator,
    steps: int,
) -> ReadingReport:
    segments, states, held_out = lessons.segments, lessons.states, lessons.held_out
    data, fold = segments.data, segments.fold
    value = _own_values(model, segments, gamma)
    outcomes = measures.by_outcome(data.outcome, fold)
    outcomes = outcomes[np.isin(fold[outcomes.a], fold[held_out.a])]
    predicted = expit(value[held_out.a] - value[held_out.b])
    of_cells = Accuracy.unknown()
    if states is not None:
        r = _own_values(model, states, gamma)
        of_cells = measures.accuracy(r, lessons.states_held_out, states.data.episode, states.fold, rng)
    return ReadingReport(
        judges=measures.accuracy(value, held_out, data.episode, fold, rng),
        gold=measures.accuracy(value, outcomes, data.episode, fold, rng),
        cells=of_cells,
        trust=_trust(model, lessons, evidence, rng),
        brier=measures.brier(predicted, held_out.label),
        calibration=measures.calibration(predicted, held_out.label),
        steps=steps,
    )


def _own_values(model: RewardModel, source: Source, gamma: float) -> NDArray[np.float64]:
    """f64 [S]: each segment or state has the value that the member gives it that never saw its fold."""
    values = evaluate(model.ensemble, torch.from_numpy(source.data.points), model.reading, gamma).numpy()
    return values[source.fold, np.arange(len(source.data))].astype(np.float64)


def _trust(
    model: RewardModel, lessons: _Lessons, evidence: Sequence[EpisodeStates], rng: np.random.Generator
) -> Trust:
    """R of each episode's states by the member that never saw it, any of them where none did."""
    known, values = [], []
    for index, states in enumerate(evidence):
        member = lessons.fold_of.get(states.episode, index % MEMBERS)
        if member in lessons.taught:
            outputs = model.ensemble(torch.from_numpy(states.observations))
            known.append(states)
            values.append(outputs[member].numpy().astype(np.float64))
    return trust(known, values, rng)


def _drift(previous: RewardModel | None, model: RewardModel) -> tuple[float, float]:
    if previous is None or previous.observation_version != model.observation_version:
        return float("nan"), float("nan")
    return measures.drift(previous.predict(model.reference).numpy(), model.predict(model.reference).numpy())


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value
