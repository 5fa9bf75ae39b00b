"""What judges say, from scores to play, on a corridor whose optimum is known: always to the right."""

import numpy as np
import pytest
import torch
from ray.rllib.core.learner.training_data import TrainingData

from questloop.episodes.boundary import Boundary
from questloop.reward_model.evidence import episode_states
from questloop.reward_model.preferences import ScoredSegment
from questloop.reward_model.train import train_reward_model
from questloop.setting_types import Shaping
from questloop.training.learner import as_rllib
from questloop.training.shaper import Shaper

LENGTH, STEPS, EPISODES = 20, 24, 60
MILESTONES = {f"cell {at}": at for at in range(4, LENGTH, 4)}


def walks(seed):
    """Random walks from anywhere in the corridor, with a leaning each: positions i64 [EPISODES, STEPS]."""
    rng = np.random.default_rng(seed)
    moves = np.where(rng.random((EPISODES, STEPS)) < rng.uniform(0.3, 0.7, (EPISODES, 1)), 1, -1)
    moves[:, 0] = 0
    start = rng.integers(0, LENGTH - 1, (EPISODES, 1))
    return np.clip(start + moves.cumsum(axis=1), 0, LENGTH - 2)


def learned_shaper(judge, seed=0, form=Shaping.POTENTIAL):
    """What a judge's scores `judge(rise, rng)` of the walks become."""
    cells, rng = np.eye(LENGTH, dtype=np.float32), np.random.default_rng(seed)
    segments, evidence = [], []
    for number, walk in enumerate(walks(seed)):
        # as in a game, no two observations are equal
        name, obs = f"e{number}", cells[walk] + rng.normal(0, 0.02, (STEPS, LENGTH)).astype(np.float32)
        segments.append(ScoredSegment(name, obs, judge(walk[-1] - walk[0], rng)))
        reached = {key: int(np.argmax(walk >= at)) for key, at in MILESTONES.items() if walk.max() >= at}
        known = episode_states(name, np.arange(STEPS), obs, {k: step for k, step in reached.items() if step})
        evidence += [known] if known else []
    model, _ = train_reward_model(segments, observation_version=1, gamma=0.99, seed=seed, evidence=evidence)
    return Shaper.of(model, 1.0, form)


def play(make_learner, make_config, shaper, updates=32):
    """Episodes that arrive, and whether the policy that was learned goes right everywhere."""
    torch.manual_seed(0)
    runner, learner = make_learner(make_config(length=LENGTH, limit=30, slots=16))
    learner.set_shaper(shaper)
    arrived = 0
    for _ in range(updates):
        rollout = runner.sample(64, learner.module.get_state()).rollout
        arrived += int((rollout.boundary == Boundary.TERMINATED).sum())
        learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))
    with torch.no_grad():
        right = learner.network.logits(torch.eye(LENGTH)[:-1]).argmax(dim=1) == 1
    return arrived, bool(right.all())


@pytest.mark.slow
@pytest.mark.parametrize("form", Shaping)
def test_a_true_judge_shows_the_way_that_play_alone_does_not_find(make_learner, make_config, form):
    def judge(rise, rng):
        return float(np.clip(0.5 + rise / 20 + rng.normal(0, 0.05), 0, 1))

    shaper = learned_shaper(judge, form=form)
    assert shaper.weight > 0.3
    arrived, optimal = play(make_learner, make_config, shaper)
    alone, _ = play(make_learner, make_config, Shaper.off())
    assert arrived > alone + 50
    assert optimal


JUDGES = {
    "at random": lambda rise, rng: float(rng.random()),
    "the wrong way round": lambda rise, rng: float(np.clip(0.5 - rise / 20, 0, 1)),
    "always the same": lambda rise, rng: 0.5,
}


@pytest.mark.slow
@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
@pytest.mark.parametrize("seed", range(2))
def test_a_judge_who_knows_nothing_or_is_wrong_changes_nothing(judge, seed):
    shaper = learned_shaper(judge, seed)
    assert shaper.weight == 0
    assert not shaper.active
