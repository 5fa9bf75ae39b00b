"""An added game, Nine Coins, as Gymnasium, Stable-Baselines3 and RLlib's remote runners know it."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import questloop.env.gym_env as quest
from questloop.errors import UsageError
from questloop.game.actions import Chord

NINE_COINS = Path(__file__).parents[2] / "games/ninecoins"
GAME = {"rom_path": str(NINE_COINS / "ninecoins.gbc"), "game_profile": str(NINE_COINS / "ninecoins.py")}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    from questloop.game.opening import play_opening
    from questloop.game.profiles.named import named_profile
    from questloop.game.rom import Rom
    from questloop.game.start_states import BEGINNING, StartState, write_start_state

    folder = str(tmp_path_factory.mktemp("states"))
    opening = play_opening(Rom.load(GAME["rom_path"]), named_profile(GAME["game_profile"]))
    write_start_state(folder, StartState(BEGINNING, opening.state))
    return folder


@pytest.fixture
def game(states):
    return GAME | {"start_states": states, "episode_length": 64}


def test_it_passes_gymnasiums_check(game):
    env = gym.make(quest.GAME, render_mode="rgb_array", disable_env_checker=True, **game)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_its_chords_are_actions(game):
    env = gym.make(quest.GAME, **game)
    assert env.action_space.n == 17
    env.reset(seed=0)
    for action in (Chord.A_RIGHT, Chord.B_RIGHT, Chord.SELECT):
        obs, *_ = env.step(int(action))
        assert env.observation_space.contains(obs)
    env.close()


def test_many_side_by_side(game):
    env = gym.make_vec(quest.GAME, num_envs=2, vectorization_mode="vector_entry_point", **game)
    obs, _ = env.reset(seed=0)
    obs, reward, *_ = env.step(np.array([Chord.A_RIGHT, 3]))
    assert obs.shape == (2, 128)
    assert reward.shape == (2,)
    env.close()


def test_rom_and_profile_may_stand_in_the_environment(game, monkeypatch):
    monkeypatch.setenv("ROM_PATH", game["rom_path"])
    monkeypatch.setenv("GAME_PROFILE", game["game_profile"])
    env = gym.make(quest.GAME)
    assert env.unwrapped._slots.profile.name == "ninecoins"
    env.close()


def test_without_a_rom_it_says_what_to_set(monkeypatch):
    monkeypatch.delenv("ROM_PATH", raising=False)
    with pytest.raises(UsageError, match="set ROM_PATH or pass rom_path="):
        gym.make(quest.GAME)


@pytest.mark.slow
def test_stable_baselines3_checks_and_learns(game):
    sb3 = pytest.importorskip("stable_baselines3", reason="extra peers")
    from stable_baselines3.common.env_checker import check_env as sb3_check

    env = gym.make(quest.GAME, **game)
    sb3_check(env, warn=True)
    learner = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    before = [weight.clone() for weight in learner.policy.parameters()]
    learner.learn(128)
    assert any((old != new).any() for old, new in zip(before, learner.policy.parameters(), strict=True))
    env.close()


RLLIB = """
import json, sys
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env
import questloop.env.gym_env as quest

game, way = json.loads(sys.argv[1]), sys.argv[2]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
register_env("ninecoins", quest.create)
config = (
    PPOConfig()
    .environment(quest.ANYWHERE if way == "id" else "ninecoins", env_config=game)
    .env_runners(num_env_runners=1, num_envs_per_env_runner=1, rollout_fragment_length=64)
    .training(train_batch_size_per_learner=64, minibatch_size=64, num_epochs=1)
)
algorithm = config.build_algo()
result = algorithm.train()
print("steps", result["env_runners"]["num_env_steps_sampled"])
algorithm.stop()
ray.shutdown()
"""


@pytest.mark.long
@pytest.mark.parametrize("way", ["id", "create"])
def test_rllibs_remote_runners_play_it(game, way, tmp_path):
    """In processes that have not imported `questloop.env.gym_env`."""
    import json

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RLLIB, json.dumps(game), way],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout.rpartition("steps ")[2]) >= 64
