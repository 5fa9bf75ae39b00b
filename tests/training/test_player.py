"""A policy that only plays acts as the network that was trained."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from questloop.errors import BadDataError
from questloop.game.actions import ACTION_COUNT
from questloop.game.observation import OBSERVATION_SIZE
from questloop.rewards.aims import AIM_SIZE, lead
from questloop.training.network import VectorModule
from questloop.training.player import Player


def module(size: int = OBSERVATION_SIZE, **model_config) -> VectorModule:
    torch.manual_seed(0)
    space = gym.spaces.Box(-1, 1, (size,), np.float32)
    actions = gym.spaces.Discrete(ACTION_COUNT)
    return VectorModule(observation_space=space, action_space=actions, model_config=model_config)


def arrays(network: VectorModule) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in network.state_dict().items()}


@pytest.mark.parametrize("led", [False, True])
def test_logits_are_those_of_the_network(led):
    size = OBSERVATION_SIZE + AIM_SIZE * led
    network = module(size, lead=lead().tolist()) if led else module()
    with torch.no_grad():
        network.policy[-1].weight.mul_(100)
        obs = np.random.default_rng(0).uniform(-1, 1, (5, size)).astype(np.float32)
        network.whiten(torch.from_numpy(obs[:4]))
        network.closed[6] = -1e9
        expected = network.logits(torch.from_numpy(obs)).numpy()
    np.testing.assert_allclose(
        Player(arrays(network), np.random.default_rng(0)).logits(obs), expected, atol=1e-4
    )


def test_actions_follow_the_softmax():
    player = Player(arrays(module()), np.random.default_rng(0))
    player._layers[-1][1][:] = np.log([0.5, 0.3, 0.2, *[1e-9] * 5])
    actions = player.act(np.zeros((4000, OBSERVATION_SIZE), np.float32))
    assert np.bincount(actions, minlength=8)[:3] / 4000 == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


def test_another_network_is_refused():
    with pytest.raises(BadDataError, match="vector observation"):
        Player(arrays(module(12)), np.random.default_rng(0))
    with pytest.raises(BadDataError, match="vector observation"):
        Player({}, np.random.default_rng(0))
