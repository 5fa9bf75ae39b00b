"""Measures RLlib and Stable-Baselines3 on the same environment, network, batch and learning rate.

Both get the vectorised environment, which serves them better than 32 single ones would.
"""

from __future__ import annotations

import time
from typing import Any, Protocol, Self

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from questloop.bench.game import bench_env
from questloop.bench.ours import BATCH, PPO_EPOCHS
from questloop.env.gym_env import QuestVectorEnv
from questloop.episodes.boundary import Boundary
from questloop.errors import MissingExtraError
from questloop.game.start_states import StartStates
from questloop.training.cluster import quiet_stderr, start_ray
from questloop.training.network import HIDDEN

MINIBATCH = 512
_ENV_ID = "questloop-bench"


class Peer(Protocol):
    """Something that trains."""

    def run(self, updates: int) -> list[float]:
        """Steps per second of each of so many updates."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: Any) -> None: ...


class StockRLlib:
    """RLlib's PPO as it comes, new API stack."""

    def __init__(
        self, starts: StartStates, runners: int, slots: int, ppo_epochs: int = PPO_EPOCHS, seed: int = 0
    ) -> None:
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
        from ray.tune.registry import register_env

        from questloop.settings import load

        start_ray(load().training)
        register_env(_ENV_ID, _rllib_env)
        config = (
            PPOConfig()
            .environment(env=_ENV_ID, env_config={"starts": starts})
            .env_runners(
                num_env_runners=runners,
                num_envs_per_env_runner=slots,
                gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
                create_local_env_runner=False,
            )
            .training(
                lr=5e-5,
                gamma=0.99,
                lambda_=0.95,
                train_batch_size_per_learner=BATCH,
                minibatch_size=MINIBATCH,
                num_epochs=ppo_epochs,
                use_kl_loss=False,
                vf_clip_param=10.0,
                entropy_coeff=0.01,
            )
            .rl_module(
                model_config=DefaultModelConfig(
                    fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=False
                )
            )
            .learners(num_learners=0)
            .debugging(seed=seed, log_level="ERROR")
        )
        self.latest: dict[str, Any] = {}
        with quiet_stderr():
            self._algorithm = config.build_algo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._algorithm.stop()

    def run(self, updates: int) -> list[float]:
        """One `train()` an update; RLlib may sample a little more than the batch, which is counted."""
        rates = []
        for _ in range(updates):
            before, began = self._sampled(), time.perf_counter()
            self.latest = self._algorithm.train()
            rates.append((self._sampled() - before) / (time.perf_counter() - began))
        return rates

    def _sampled(self) -> float:
        return float(
            self._algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0)
        )


def _rllib_env(context: dict[str, Any]) -> gym.Env | gym.vector.VectorEnv:
    slots = bench_env(context["num_envs"], context["starts"])
    return QuestVectorEnv(autoreset_mode=AutoresetMode.NEXT_STEP, slots=slots)


class StableBaselines3:
    """SB3's PPO over 32 slots in this process."""

    def __init__(self, starts: StartStates, slots: int = 32) -> None:
        try:
            from stable_baselines3 import PPO
        except ImportError:
            raise MissingExtraError("stable-baselines3", "peers") from None

        from stable_baselines3.common.logger import Logger

        self._env = _sb3_env(starts, slots)
        self._ppo = PPO(
            "MlpPolicy",
            self._env,
            learning_rate=5e-5,
            n_steps=BATCH // slots,
            batch_size=MINIBATCH,
            n_epochs=PPO_EPOCHS,
            gamma=0.99,
            gae_lambda=0.95,
            ent_coef=0.01,
            policy_kwargs={
                "net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)},
                "activation_fn": torch.nn.Tanh,
            },
            seed=0,
            device="cpu",
        )
        self._ppo.set_logger(Logger(None, []))  # or every `learn` makes a folder of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._env.close()

    def run(self, updates: int) -> list[float]:
        """One `learn` of a batch an update."""
        rates = []
        for _ in range(updates):
            began = time.perf_counter()
            self._ppo.learn(BATCH, reset_num_timesteps=False)
            rates.append(BATCH / (time.perf_counter() - began))
        return rates


def _sb3_env(starts: StartStates, slots: int) -> Any:
    """The slots as SB3 wants them: its `VecEnv` resets within the step, like `GameEnv`."""
    from stable_baselines3.common.vec_env import VecEnv

    class Slots(VecEnv):
        def __init__(self) -> None:
            self._env = bench_env(slots, starts)
            self._obs = np.zeros((slots, *self._env.observation_shape), np.float32)
            self._actions = np.zeros(slots, np.uint8)
            space = gym.spaces.Box(-1.0, 1.0, self._env.observation_shape, np.float32)
            super().__init__(slots, space, gym.spaces.Discrete(self._env.num_actions))

        def reset(self) -> np.ndarray:
            self._env.reset(self._obs)
            return self._obs.copy()

        def step_async(self, actions: np.ndarray) -> None:
            self._actions = actions.astype(np.uint8)

        def step_wait(self) -> Any:
            reward, boundary = np.zeros(slots, np.float32), np.zeros(slots, np.uint8)
            self._env.step(self._actions, self._obs, reward, boundary)
            infos: list[dict[str, Any]] = [{} for _ in range(slots)]
            for slot in np.flatnonzero(boundary):
                infos[slot] = {
                    "terminal_observation": self._env.final_obs[slot].copy(),
                    "TimeLimit.truncated": bool(boundary[slot] == Boundary.TRUNCATED),
                }
            return self._obs.copy(), reward, boundary != Boundary.NONE, infos

        def close(self) -> None:
            self._env.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * slots

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise NotImplementedError

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
            return [False] * slots

    return Slots()
