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

_RESTORE_TRIES = 30
_RESTORE_PAUSE_S = 1.0


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
    runners_restored: int = 0


class QuestPPO(PPO):
    """Samples exactly `T x N` steps of every runner, finishes the batch on `[T, N]`, updates the learner group."""

    last_update: Update

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return QuestConfig()

    @property
    def learner(self) -> QuestLearner:
        """The one learner, in this process."""
        return self.learner_group._learner

    def training_step(self) -> None:
        started = time.perf_counter()
        samples, restored = self.sample(self.config.rollout_steps)
        sampled = time.perf_counter()
        rollout = concatenate([sample.rollout for sample in samples])
        statistics = self.learn(rollout)
        self.last_update = Update(
            steps=rollout.action.size,
            samples=samples,
            statistics=statistics,
            sample_seconds=sampled - started,
            learn_seconds=time.perf_counter() - sampled,
            runners_restored=restored,
        )
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), rollout.action.size, reduce="lifetime_sum"
        )

    def sample(self, steps: int) -> tuple[list[Sample], int]:
        """`steps` of every slot under the current weights, ordered by runner; and how many runners were lost.

        A runner that is lost is started again by Ray, begins new episodes and samples its share, so that every
        batch has its full size. Raises what a runner met, or `UnavailableError` if one does not come back.
        """
        kwargs = {"steps": steps, "weights": self.learner.module.get_state()}
        if self.env_runner_group.num_remote_env_runners() == 0:
            return [_unwrap(self.env_runner.sample(**kwargs))], 0
        kwargs["weights"] = ray.put(kwargs["weights"])
        wanted = self.env_runner_group.num_remote_env_runners()
        samples = self._sample_runners(kwargs)
        lost = wanted - len(samples)
        for _ in range(_RESTORE_TRIES):
            if len(samples) == wanted:
                break
            restored = self.env_runner_group.probe_unhealthy_env_runners()
            if restored:
                samples += self._sample_runners(kwargs, restored)
            else:
                time.sleep(_RESTORE_PAUSE_S)
        else:
            raise UnavailableError(
                f"{wanted - len(samples)} of {wanted} environment runners did not come back; "
                "look at Ray's logs for the reason (often: out of memory; lower ENVS_PER_WORKER)"
            )
        return sorted(samples, key=lambda sample: sample.runner), lost

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
