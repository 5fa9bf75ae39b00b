"""PPO as an RLlib Algorithm, with a training step of our own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from questloop.env.batch_env import BatchEnv
from questloop.env.starts import Guidance
from questloop.errors import UnavailableError
from questloop.training.learner import QuestLearner, as_rllib
from questloop.training.network import VectorModule, VisualModule
from questloop.training.rollout import Rollout, concatenate
from questloop.training.runner import QuestRunner, Sample

if TYPE_CHECKING:
    from questloop.planner.copilot import Copilot

_MOST_LOST = 3  # times each
_RESTORE_TRIES = 60
_RESTORE_PAUSE_S = 1.0
_LOST_HINT = "Ray's logs name the reason (often memory: lower ENVS_PER_WORKER)"


class QuestConfig(PPOConfig):
    """RLlib's PPO configuration, with what our runner and learner need."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or QuestPPO)
        self.batch_env: Callable[[int], BatchEnv] | None = None
        self.rollout_steps = 64
        self.action_mask: tuple[bool, ...] | None = None
        self.lead: list[list[float]] | None = None
        self.whiten = False
        self.record = False
        self.planning: Callable[[Any], list[Copilot]] | None = None
        self.rnd_coef = 0.0
        self.features_size: int | None = None  # of the vectors beside what the policy sees
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
        images = self.observation_space is not None and len(self.observation_space.shape) == 3
        return RLModuleSpec(
            module_class=VisualModule if images else VectorModule,
            model_config={"action_mask": self.action_mask, "lead": self.lead},
        )


@dataclass
class Update:
    """One training step: what was sampled and what the learner made of it."""

    samples: list[Sample]
    lost: list[int]  # runners that were lost: their slots began new episodes
    rollout: Rollout
    statistics: dict[str, float]
    sample_seconds: float
    learn_seconds: float


class QuestPPO(PPO):
    """Samples `T x N` steps of every runner, finishes the batch on `[T, N]` and updates the learner."""

    last_update: Update
    runners_lost: int = 0
    first_incarnation: int = 0
    """of the random streams, above those of a layout before this one"""
    guidance: Guidance | None = None

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return QuestConfig()

    @property
    def learner(self) -> QuestLearner:
        """The one learner, in this process."""
        return self.learner_group._learner

    def _setup_logdir(self) -> None:
        """No folder in the user's home: results are in the report."""
        self._logdir = tempfile.gettempdir()

    def training_step(self) -> None:
        """`rollout_steps` of every slot, one update."""
        self.step_once(self.config.rollout_steps)

    def step_once(self, steps: int) -> Update:
        """Sample `steps` of every slot and learn from them."""
        started = time.perf_counter()
        samples, lost = self.sample(steps)
        sampled = time.perf_counter()
        rollout = concatenate([sample.rollout for sample in samples])
        statistics = self.learn(rollout)
        learned = time.perf_counter()
        self.last_update = Update(
            samples,
            lost,
            rollout,
            statistics,
            sample_seconds=sampled - started,
            learn_seconds=learned - sampled,
        )
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), rollout.action.size, reduce="lifetime_sum"
        )
        return self.last_update

    def sample(self, steps: int) -> tuple[list[Sample], list[int]]:
        """`steps` of every slot under the current weights, ordered by runner, and the runners that were lost.

        A runner that is lost is started again by Ray, begins new episodes and samples its share, so that
        every batch has its full size. Raises what a runner met, or `UnavailableError` if one does not come
        back.
        """
        weights = self.learner.module.get_state()
        samples, lost = self._on_every_runner("sample", steps=steps, weights=weights, guidance=self.guidance)
        return sorted(samples, key=lambda sample: sample.runner), lost

    def slot_states(self) -> list[dict[str, Any]]:
        """The state of every runner's slots, ordered by runner."""
        states, _ = self._on_every_runner("slot_state")
        return sorted(states, key=lambda state: state["runner"])

    def load_slot_states(self, states: list[dict[str, Any]]) -> None:
        """Put the slots of every runner where `slot_states` found them."""
        self._on_every_runner("load_slot_state", states=states)

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Finish the batch and update; statistics of the update."""
        batch = self.learner.prepare(rollout)
        results = self.learner_group.update(batch=as_rllib(batch))
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        return self.learner.statistics

    def _on_every_runner(self, method: str, **kwargs: Any) -> tuple[list[Any], list[int]]:
        """Results of `method` of every runner, lost ones replaced; and the indices of those."""
        group = self.env_runner_group
        if group.num_remote_env_runners() == 0:
            local = kwargs | self._incarnation(method)
            return [_unwrap(getattr(self.env_runner, method)(**local))], []
        kwargs = {
            key: ray.put(value) if isinstance(value, (dict, list, Guidance)) else value
            for key, value in kwargs.items()
        }
        results = self._call(method, kwargs, group.healthy_env_runner_ids())
        lost: list[int] = []
        while missing := group.num_remote_env_runners() - len(results):
            if len(lost) > _MOST_LOST * group.num_remote_env_runners():
                raise UnavailableError(
                    f"{len(lost)} environment runners were lost in one batch; {_LOST_HINT}"
                )
            restored = self._restored_runners(missing)
            lost += [runner_id - 1 for runner_id in restored]
            self.runners_lost += len(restored)
            results += self._call(method, kwargs, restored)
        return results, lost

    def _call(self, method: str, kwargs: dict[str, Any], ids: list[int]) -> list[Any]:
        results = self.env_runner_group.foreach_env_runner(
            method, kwargs=kwargs | self._incarnation(method), remote_worker_ids=ids, local_env_runner=False
        )
        return [_unwrap(result) for result in results]

    def _incarnation(self, method: str) -> dict[str, int]:
        return {"incarnation": self.first_incarnation + self.runners_lost} if method == "sample" else {}

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


def _unwrap(result: Any) -> Any:
    if isinstance(result, Exception):
        raise result
    return result
