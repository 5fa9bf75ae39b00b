"""Trains the reward model on judged segments, and reports on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from questloop.reward_model import measures
from questloop.reward_model.evidence import EpisodeStates, Trust, trust
from questloop.reward_model.fit import MAX_STEPS, evaluate, fit, roles
from questloop.reward_model.folds import split
from questloop.reward_model.measures import Accuracy, CalibrationBin
from questloop.reward_model.network import MEMBERS, Measured, RewardModel, RewardReading
from questloop.reward_model.preferences import (
    MAX_PAIRS,
    Pool,
    Preferences,
    ScoredSegment,
    pool,
    preferences,
)

READING = RewardReading.DIFFERENCE
REFERENCE_SIZE = 1024


@dataclass(frozen=True)
class ReadingReport:
    """A reading on held-out episodes.

    Accuracy of segments' values against the judges and against known outcomes (gold); trust in R as a
    potential, which is what shaping needs; Brier score and calibration of P(a is better) against the judges;
    the training steps taken.
    """

    judges: Accuracy
    gold: Accuracy
    trust: Trust
    brier: float
    calibration: list[CalibrationBin]
    steps: int


@dataclass(frozen=True)
class RewardModelReport:
    """What was learned and how far it is to be trusted; NaN stands for what could not be measured.

    Every segment is measured by the one member that never saw its fold; `held_out` counts the comparisons
    for that, `learned` those that the members share, `ties` those of both without a better side.
    `length_only` is the accuracy of preferring the longer segment, 0.5 where length tells nothing. `drift` is
    the mean absolute change of the potential on the reference set since the epoch before, `drift_correlation`
    Spearman's between the two.
    """

    sha256: str
    reading: RewardReading
    readings: dict[RewardReading, ReadingReport]
    segments: int
    episodes: int
    learned: int
    held_out: int
    ties: int
    length_only: float
    drift: float
    drift_correlation: float

    @property
    def accuracy(self) -> Accuracy:
        """Against the judges, of the reading in use."""
        return self.readings[self.reading].judges

    @property
    def gold_accuracy(self) -> Accuracy:
        """Against known outcomes, of the reading in use."""
        return self.readings[self.reading].gold

    @property
    def trust(self) -> Trust:
        """Against the milestones of episodes, of the reading in use."""
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
    evidence: Sequence[EpisodeStates] = (),
    comparisons: Preferences | None = None,
    previous: RewardModel | None = None,
    reading: RewardReading = READING,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[RewardModel, RewardModelReport]:
    """Train the ensemble on judged segments and measure it on episodes that its members did not see.

    Args:
        segments: with scores, in any order; their order is that of the indices in `comparisons`.
        observation_version: layout of their observations.
        gamma: the learner's discount.
        seed: of every random choice. The same seed and segments give the same file.
        evidence: states of episodes that reached milestones; nothing is learned from it.
        comparisons: judged side by side, in place of those that are made from scores.
        previous: the model of the epoch before: its reference set is kept, drift is measured on it.
        reading: what a segment is worth. The other one is trained too, for the report.
        progress: told the steps done and the most there can be.

    Raises `BadDataError` for segments that cannot be used.
    """
    with _one_thread():
        return _train(
            pool(segments),
            evidence,
            observation_version,
            gamma,
            seed,
            comparisons,
            previous,
            reading,
            progress,
        )


def _train(
    data: Pool,
    evidence: Sequence[EpisodeStates],
    observation_version: int,
    gamma: float,
    seed: int,
    comparisons: Preferences | None,
    previous: RewardModel | None,
    reading: RewardReading,
    progress: Callable[[int, int], None],
) -> tuple[RewardModel, RewardModelReport]:
    rng = np.random.default_rng(seed)
    fold_of = split(data.groups, MEMBERS, rng)
    fold = fold_of[data.episode]
    learned = preferences(data, np.arange(len(data)), rng) if comparisons is None else comparisons
    taught = np.flatnonzero(roles(fold, learned)[0].any(axis=1))
    held_out = _held_out(data, fold, taught, comparisons, rng)
    known = _held_out_evidence(evidence, dict(zip(data.episodes, fold_of.tolist(), strict=True)), taught)
    reference = _reference(data, previous, observation_version, rng)
    total = MAX_STEPS * len(RewardReading)
    models: dict[RewardReading, RewardModel] = {}
    reports: dict[RewardReading, ReadingReport] = {}
    for index, kind in enumerate(RewardReading):
        tell = partial(_tell, progress, index * MAX_STEPS, total)
        ensemble, steps = fit(data, fold, learned, reading=kind, gamma=gamma, seed=seed, progress=tell)
        model = RewardModel(ensemble, reference, reading=kind, observation_version=observation_version)
        trusted = _trust(model, known, rng)
        reports[kind] = _measure(model, data, fold, held_out, gamma, rng, steps, trusted)
        judges = reports[kind].judges
        models[kind] = model.with_measures(Measured(judges.value, judges.low, trusted.value, trusted.low))
    progress(total, total)
    model = models[reading]
    moved, correlation = _drift(previous, model)
    return model, RewardModelReport(
        sha256=model.sha256,
        reading=reading,
        readings=reports,
        segments=len(data),
        episodes=len(np.unique(data.episode)),
        learned=len(learned),
        held_out=len(held_out),
        ties=int((learned.label == 0.5).sum() + (held_out.label == 0.5).sum()),
        length_only=measures.accuracy(
            data.length.astype(np.float64), held_out, data.episode, fold, rng
        ).value,
        drift=moved,
        drift_correlation=correlation,
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """The matrices are too small to share out, and the sums of one thread are the same on every machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _tell(progress: Callable[[int, int], None], before: int, total: int, step: int) -> None:
    progress(before + step, total)


def _held_out(
    data: Pool,
    fold: NDArray[np.int64],
    taught: NDArray[np.int64],
    comparisons: Preferences | None,
    rng: np.random.Generator,
) -> Preferences:
    """Comparisons within each fold whose member learned anything."""
    if comparisons is not None:
        inside = fold[comparisons.a] == fold[comparisons.b]
        return comparisons[inside & np.isin(fold[comparisons.a], taught)]
    limit = MAX_PAIRS // MEMBERS
    made = [preferences(data, np.flatnonzero(fold == member), rng, limit) for member in taught]
    return Preferences.joined(made)


def _reference(
    data: Pool, previous: RewardModel | None, observation_version: int, rng: np.random.Generator
) -> torch.Tensor:
    """The reference set of the epoch before, else some of the observations."""
    if previous is not None and previous.observation_version == observation_version:
        return previous.reference
    rows = data.points.reshape(-1, data.points.shape[-1])
    chosen = rng.choice(len(rows), min(REFERENCE_SIZE, len(rows)), replace=False)
    return torch.from_numpy(rows[chosen])


def _measure(
    model: RewardModel,
    data: Pool,
    fold: NDArray[np.int64],
    held_out: Preferences,
    gamma: float,
    rng: np.random.Generator,
    steps: int,
    trusted: Trust,
) -> ReadingReport:
    """Each segment has the value that the member gives it that never saw its fold."""
    points, own = torch.from_numpy(data.points), (fold, np.arange(len(data)))
    value = evaluate(model.ensemble, points, model.reading, gamma).numpy()[own].astype(np.float64)
    outcomes = measures.by_outcome(data.outcome, fold)
    outcomes = outcomes[np.isin(fold[outcomes.a], fold[held_out.a])]
    predicted = expit(value[held_out.a] - value[held_out.b])
    return ReadingReport(
        judges=measures.accuracy(value, held_out, data.episode, fold, rng),
        gold=measures.accuracy(value, outcomes, data.episode, fold, rng),
        trust=trusted,
        brier=measures.brier(predicted, held_out.label),
        calibration=measures.calibration(predicted, held_out.label),
        steps=steps,
    )


_Known = list[tuple[int, EpisodeStates]]


def _held_out_evidence(
    evidence: Sequence[EpisodeStates], fold_of: Mapping[str, int], taught: NDArray[np.int64]
) -> _Known:
    """Each episode with the member that never saw it, any of them where none did; only members that learned
    anything, since the others are as they were drawn."""
    members = [fold_of.get(states.episode, index % MEMBERS) for index, states in enumerate(evidence)]
    return [pair for pair in zip(members, evidence, strict=True) if pair[0] in taught]


def _trust(model: RewardModel, known: _Known, rng: np.random.Generator) -> Trust:
    values = [
        model.ensemble(torch.from_numpy(states.observations))[member].numpy().astype(np.float64)
        for member, states in known
    ]
    return trust([states for _, states in known], values, rng)


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
