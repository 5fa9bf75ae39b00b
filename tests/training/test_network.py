"""What policy and critic make of an observation, and which actions a policy may take."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from tests.training.test_imitation import GAMMA, demonstration

from questloop.env.observers import WHITE_MOST
from questloop.game.actions import ACTION_COUNT, Action
from questloop.game.observation import INDEX, OBSERVATION_SIZE
from questloop.game.profiles.mossgrove import PROFILE
from questloop.rewards.aims import AIM_SIZE, lead
from questloop.training.imitation import weigh
from questloop.training.loss import LossWeights, policy_loss
from questloop.training.network import SPREAD_LEAST, VectorModule, VisualModule
from questloop.training.runner import draw_actions

MASK = tuple(PROFILE.action_mask.tolist())


def module(kind=VectorModule, shape=(OBSERVATION_SIZE,), dtype=np.float32, **model_config):
    torch.manual_seed(0)
    space = gym.spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)
    actions = gym.spaces.Discrete(ACTION_COUNT)
    return kind(observation_space=space, action_space=actions, model_config=model_config)


@pytest.fixture
def observations():
    """Random play: a key in hand is a quarter of a component that is 0 nearly always."""
    obs = torch.rand(2000, OBSERVATION_SIZE)
    obs[:, INDEX["keys_here"]] = 0.0
    obs[::100, INDEX["keys_here"]] = 0.25
    obs[:, INDEX["bombs"]] = 0.0
    return obs


def test_what_hardly_varies_is_seen_as_clearly_as_what_does(observations):
    network = module()
    network.whiten(observations)
    seen = network._white(observations)
    position, key = INDEX["x"], INDEX["keys_here"]
    assert seen[:, position].std() == pytest.approx(1, abs=1e-3)
    assert seen[:, position].mean() == pytest.approx(0, abs=1e-3)
    difference = seen[::100, key].mean() - seen[1::100, key].mean()
    assert difference == pytest.approx(0.25 / SPREAD_LEAST, abs=1e-3)


def test_what_never_varied_is_bounded(observations):
    network = module()
    network.whiten(observations)
    strange = observations.clone()
    strange[:, INDEX["bombs"]] = 1.0
    assert network._white(strange).abs().max() <= WHITE_MOST


def test_a_new_network_sees_observations_as_they_are(observations):
    assert torch.equal(module()._white(observations), observations)


@pytest.mark.parametrize(
    ("kind", "shape", "dtype"),
    [(VectorModule, (OBSERVATION_SIZE,), np.float32), (VisualModule, (7, 72, 80), np.uint8)],
)
def test_what_the_profile_leaves_out_is_never_pressed(kind, shape, dtype):
    network = module(kind, shape, dtype, action_mask=MASK)
    obs = torch.zeros((64, *shape), dtype=torch.uint8 if dtype == np.uint8 else torch.float32)
    with torch.no_grad():
        logits = network.logits(obs).numpy()
        if network.shares_layers:
            np.testing.assert_array_equal(network.logits_and_values(obs)[0].numpy(), logits)
    action, logp = np.zeros(64, np.uint8), np.zeros(64, np.float32)
    drawn = set()
    for uniform in np.random.default_rng(0).random((50, 64), np.float32):
        draw_actions(logits, uniform, action, logp)
        drawn |= set(action.tolist())
    assert drawn == set(range(ACTION_COUNT)) - {int(Action.START)}
    assert np.isfinite(logp).all()


def test_an_action_that_is_left_out_disturbs_no_gradient():
    network = module(action_mask=MASK)
    obs, action = torch.rand(32, OBSERVATION_SIZE), torch.zeros(32, dtype=torch.long)
    logp = torch.full((32,), float(np.log(1 / 7)))
    loss, statistics = policy_loss(network.logits(obs), action, logp, torch.randn(32), LossWeights())
    loss.backward()
    assert statistics[1] == pytest.approx(np.log(7), abs=0.01)  # entropy over those that are left
    assert all(torch.isfinite(p.grad).all() for p in network.policy.parameters())


def test_what_a_planner_pressed_and_a_policy_may_not_is_not_imitated():
    item = demonstration([0, 1, 0, 0], action=[Action.A, Action.START, Action.UP, Action.START])
    zeros = np.zeros(5, np.float32)
    kept = weigh([item], [zeros], [zeros], GAMMA, sil_coef=1.0).among(torch.tensor(MASK))
    assert kept.action.tolist() == [Action.A, Action.UP]
    assert len(kept.obs) == len(kept.awr) == len(kept.gap) == len(kept.target) == 2


def test_a_game_without_a_mask_offers_every_action():
    assert not module().closed.any()


@pytest.mark.parametrize(
    ("seen", "action"),
    [
        ((1, 0, 0, 0), Action.RIGHT),
        ((-1, 0, 0, 0), Action.LEFT),
        ((0, 1, 0, 0), Action.DOWN),
        ((0, -1, 0, 0), Action.UP),
        ((0, 0, 0, 1), Action.A),
    ],
)
def test_a_policy_that_has_learned_nothing_follows_the_aim(seen, action):
    network = module(shape=(OBSERVATION_SIZE + AIM_SIZE,), lead=lead().tolist())
    obs = torch.zeros(1, OBSERVATION_SIZE + AIM_SIZE)
    obs[0, -AIM_SIZE:] = torch.tensor(seen)
    chances = network.logits(obs).softmax(dim=1)[0]
    assert chances.argmax() == action
    assert 0.4 < chances[action] < 0.9  # with much noise


def test_without_an_aim_nothing_is_preferred():
    network = module(shape=(OBSERVATION_SIZE + AIM_SIZE,), lead=lead().tolist())
    chances = network.logits(torch.zeros(1, OBSERVATION_SIZE + AIM_SIZE)).softmax(dim=1)
    assert chances.max() < 0.2
