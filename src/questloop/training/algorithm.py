"""PPO under RLlib's Algorithm with a training step of our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from questloop.errors import UnavailableError
from questloop.training.batch_env import BatchEnv
from questloop.training.learner import QuestLearner, as_rllib
from questloop.training.network import VectorModule
from questloop.training.rollout import Rollout, concatenate
from questloop.training.runner import QuestRunner, Sample

_RESAMPLE_TRIES = 5
_RESTORE_TRIES = 60
_RESTORE_PAUSE_S = 1.0
_LOST_HINT = "Ray's logs name the reason (often memory: lower ENVS_PER_WORKER)"


class QuestConfig(PPOConfig):
    """RLlib's PPO configuration, with what our runner and learner need."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or QuestPPO)
        self.batch_env: Callable[[int], BatchEnv] | None = None
        self.rollout_steps = 64
        self.intrinsic_coef = 0.0
        self.env_runners(env_runner_cls=QuestRunner, create_local_env_runner=False)
        self.learners(learner_class=QuestLearner, num_learners=0)
        self.training(
            lr=5e-5,
            gamma=0.99,
            lambda_=0.95,
            clip_param=0.2,
            vf_clip_param=10.0,
            entropy_coeff=0.01,
            use_kl_loss=False,
            minibatch_size=512,
            num_epochs=10,
        )
        self.fault_tolerance(restart_failed_env_runners=True, delay_between_env_runner_restarts_s=0)
        # Connectors keep no state here, so there is nothing to sync between iterations.
        self._dont_auto_sync_env_runner_states = True

    def play(
        self,
        batch_env: Callable[[int], BatchEnv],
        observation_space: gym.Space,
        action_space: gym.Space,
        rollout_steps: int,
    ) -> QuestConfig:
        """Runners step `batch_env(num_envs_per_env_runner)` for `rollout_steps` a batch."""
        self.batch_env = batch_env
        self.rollout_steps = rollout_steps
        self.environment(env=gym.Env, observation_space=observation_space, action_space=action_space)
        return self

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=VectorModule)


@dataclass
class Update:
    """One training step: what was sampled and what the learner made of it."""

    steps: int
    samples: list[Sample] = field(default_factory=list)
    statistics: dict[str, float] = field(default_factory=dict)
    sample_seconds: float = 0.0
    learn_seconds: float = 0.0


class QuestPPO(PPO):
    """Samples `T x N` steps of every runner, finishes the batch on `[T, N]` and updates the learner."""

    last_update: Update
    runners_lost: int = 0

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return QuestConfig()

    @property
    def learner(self) -> QuestLearner:
        """The one learner, in this process."""
        return self.learner_group._learner

    def training_step(self) -> None:
        started = time.perf_counter()
        samples = self.sample(self.config.rollout_steps)
        sampled = time.perf_counter()
        rollout = concatenate([sample.rollout for sample in samples])
        statistics = self.learn(rollout)
        self.last_update = Update(
            steps=rollout.action.size,
            samples=samples,
            statistics=statistics,
            sample_seconds=sampled - started,
            learn_seconds=time.perf_counter() - sampled,
        )
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), rollout.action.size, reduce="lifetime_sum"
        )

    def sample(self, steps: int) -> list[Sample]:
        """`steps` of every slot under the current weights, ordered by runner.

        A runner that is lost is started again by Ray, begins new episodes and samples its share, so that
        every batch has its full size. Raises what a runner met, or `UnavailableError` if one does not come
        back.
        """
        weights = self.learner.module.get_state()
        wanted = self.env_runner_group.num_remote_env_runners()
        if wanted == 0:
            return [_unwrap(self.env_runner.sample(steps, weights))]
        kwargs = {"steps": steps, "weights": ray.put(weights), "incarnation": self.runners_lost}
        samples = self._sample_runners(kwargs)
        tries = 0
        while len(samples) < wanted:
            self.runners_lost += 1
            kwargs["incarnation"] = self.runners_lost
            samples += self._sample_runners(kwargs, self._restored_runners(wanted - len(samples)))
            tries += 1
            if tries == _RESAMPLE_TRIES:
                raise UnavailableError(
                    f"environment runners were lost {tries} times in one batch; {_LOST_HINT}"
                )
        return sorted(samples, key=lambda sample: sample.runner)

    def _restored_runners(self, missing: int) -> list[int]:
        """Ids of runners that came back, once all `missing` ones have."""
        restored: list[int] = []
        for _ in range(_RESTORE_TRIES):
            restored += self.env_runner_group.probe_unhealthy_env_runners()
            if len(restored) >= missing:
                return restored
            time.sleep(_RESTORE_PAUSE_S)
        raise UnavailableError(
            f"{missing - len(restored)} environment runners did not come back; {_LOST_HINT}"
        )

    def _sample_runners(self, kwargs: dict[str, Any], ids: list[int] | None = None) -> list[Sample]:
        results = self.env_runner_group.foreach_env_runner(
            "sample", kwargs=kwargs, remote_worker_ids=ids, local_env_runner=False
        )
        return [_unwrap(result) for result in results]

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Finish the batch and update; statistics of the update."""
        batch = self.learner.prepare(rollout)
        results = self.learner_group.update(batch=as_rllib(batch))
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        return {
            name: float(value.peek() if hasattr(value, "peek") else value)
            for name, value in results[0][DEFAULT_MODULE_ID].items()
        }


def _unwrap(result: Sample | Exception) -> Sample:
    if isinstance(result, Exception):
        raise result
    return result
