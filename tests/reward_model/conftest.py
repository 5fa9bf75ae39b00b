"""A planted world: segments whose true progress is known, and judges of known accuracy."""

from collections.abc import Callable

import numpy as np
import pytest

from questloop.reward_model.evidence import EpisodeStates, episode_states
from questloop.reward_model.preferences import ScoredSegment

SIZE = 24


@pytest.fixture(scope="session")
def planted() -> Callable[..., list[ScoredSegment]]:
    """Judged segments of a world in which feature 0 rises with progress and the others tell nothing.

    A judge of pair accuracy p scores truth plus normal noise of deviation `std(truth) / tan(pi (p - 1/2))`,
    for which `P(right order) = 1/2 + atan(std(truth) / std(noise)) / pi`; p = 0.5 scores noise alone. `bias`
    adds as many deviations of feature 1's mean to the score. The outcome is the truth.
    """

    def make(
        accuracy: float, seed: int = 0, episodes: int = 30, length: int = 64, bias: float = 0.0
    ) -> list[ScoredSegment]:
        rng = np.random.default_rng(seed)
        names, observations, truths = [], [], []
        for episode in range(episodes):
            progress, place = 0.0, rng.normal(size=8)
            for _ in range(8):
                rise = max(rng.normal(), -0.5)
                obs = rng.normal(0, 0.3, (length, SIZE)).astype(np.float32)
                obs[:, 0] = np.tanh((progress + np.linspace(0, rise, length)) / 4)
                obs[:, 1:9] += place + np.cumsum(rng.normal(0, 0.1, (length, 8)), axis=0)
                progress, place = progress + rise, obs[-1, 1:9]
                names.append(f"e{episode}")
                observations.append(obs)
                truths.append(rise)
        truth = np.array(truths)
        liked = np.array([obs[:, 1].mean() for obs in observations])
        noise = rng.normal(size=len(truth))
        share = np.cos(np.pi * (accuracy - 0.5))  # noise / sqrt(truth^2 + noise^2)
        judged = np.sqrt(1 - share**2) * truth / truth.std() + share * noise + bias * liked / liked.std()
        score = 1 / (1 + np.exp(-judged))
        return [
            ScoredSegment(name, obs, float(s), 0.0, float(t))
            for name, obs, s, t in zip(names, observations, score, truth, strict=True)
        ]

    return make


@pytest.fixture(scope="session")
def happened() -> Callable[[list[ScoredSegment]], list[EpisodeStates]]:
    """What is known of the episodes of planted segments: a milestone is a whole step of progress."""

    def find(segments: list[ScoredSegment]) -> list[EpisodeStates]:
        found = []
        for episode in dict.fromkeys(segment.episode for segment in segments):
            parts = [segment.observations for segment in segments if segment.episode == episode]
            obs = np.concatenate(parts)
            done = np.floor(4 * np.arctanh(obs[:, 0]))
            names = {f"m{n:02d}": int(np.argmax(done >= n)) for n in range(1, int(done.max()) + 1)}
            found.append(episode_states(episode, np.arange(len(obs)), obs, names))
        return [states for states in found if states is not None]

    return find
