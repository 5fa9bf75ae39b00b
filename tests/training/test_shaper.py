"""Shaping in the learner: the closed form, and the critic's change of ground."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from questloop.episodes.boundary import Boundary
from questloop.setting_types import Shaping
from questloop.training.advantages import Values
from questloop.training.network import mlp
from questloop.training.shaper import Shaper, refit_critic

GAMMA = 0.97


@dataclass
class Slope:
    """A potential that is linear in the first number of the observation."""

    factor: float = 1.0
    sha256: str = "a" * 64
    observation_version: int = 1
    accuracy: float = 0.9
    accuracy_low: float = 0.8
    trust: float = 0.9
    trust_low: float = 0.8

    def __call__(self, obs):
        return np.float32(self.factor) * obs[:, 0]


class Net:
    def __init__(self):
        self.values = mlp(4, 2, gain=1.0)

    def critic_parameters(self):
        return list(self.values.parameters())


def test_the_discounted_sum_over_a_terminated_episode_is_minus_the_first_potential():
    shaper = Shaper.of(Slope(), coef=0.5, form=Shaping.POTENTIAL)
    phi = shaper(np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32))[:, None]
    boundary = np.zeros((8, 1), np.uint8)
    boundary[-1] = Boundary.TERMINATED
    values = Values(phi[:-1], phi[-1], np.zeros((8, 1), np.float32))
    rewards = shaper.rewards(values, boundary, GAMMA)
    total = (rewards[:, 0] * GAMMA ** np.arange(8)).sum()
    assert shaper.weight == pytest.approx(0.5 * (2 * 0.9 - 1))
    assert total == pytest.approx(-phi[0, 0], abs=1e-6)


def test_a_model_no_better_than_chance_switches_itself_off_and_says_so():
    shaper = Shaper.of(Slope(accuracy=0.52, accuracy_low=0.47), coef=1.0)
    assert not shaper.active
    assert "chance" in shaper.reason
    assert not shaper(np.ones((2, 3), np.float32)).any()


@pytest.mark.parametrize("trust", [(0.1, 0.02), (0.55, 0.45), (float("nan"), float("nan"))])
def test_a_model_that_agrees_with_its_judges_and_not_with_what_happened_is_off(trust):
    shaper = Shaper.of(Slope(trust=trust[0], trust_low=trust[1]), coef=1.0)
    assert not shaper.active
    assert "milestone" in shaper.reason


def test_the_critic_moves_by_minus_the_potential_and_its_other_head_stays():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    network = Net()
    obs = torch.from_numpy(rng.uniform(-1, 1, (1024, 4)).astype(np.float32))
    change = obs[:, 0].clone()
    before = network.values(obs).detach()
    residual = refit_critic(network, obs, change, rng)
    after = network.values(obs).detach()
    assert residual < 0.05
    assert float((after[:, 0] - (before[:, 0] - change)).square().mean()) < 0.05 * float(
        change.square().mean()
    )
    assert float((after[:, 1] - before[:, 1]).square().mean()) < 0.05


def test_the_learner_refits_once_when_the_potential_changes(make_learner):
    runner, learner = make_learner()
    learner.set_shaper(Shaper.of(Slope(), coef=1.0, form=Shaping.POTENTIAL))
    policy = [parameter.detach().clone() for parameter in learner.network.policy.parameters()]
    learner.prepare(runner.sample(32, learner.module.get_state()).rollout)
    assert learner.statistics["refit_residual"] < 0.1
    assert "shaping_mean" in learner.statistics
    assert all(torch.equal(a, b) for a, b in zip(policy, learner.network.policy.parameters(), strict=True))
    learner.set_shaper(Shaper.of(Slope(), coef=1.0, form=Shaping.POTENTIAL))
    learner.prepare(runner.sample(32, learner.module.get_state()).rollout)
    assert "refit_residual" not in learner.statistics


def test_the_critic_is_left_to_learn_what_progress_pays(make_learner):
    runner, learner = make_learner()
    learner.set_shaper(Shaper.of(Slope(), coef=1.0))
    assert len(learner.prepare(runner.sample(32, learner.module.get_state()).rollout))
    assert "refit_residual" not in learner.statistics
    assert "shaping_mean" in learner.statistics
