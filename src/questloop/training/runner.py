"""The environment runner: samples `T` steps of `N` emulators in one process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.checkpoints import Checkpointable

from questloop.env.slot_report import SlotReport
from questloop.env.starts import Guidance
from questloop.env.streams import load_stream_states, slot_streams, stream_states
from questloop.episodes.boundary import Boundary, ends_episode
from questloop.episodes.takeover import EndedTakeover, Takeover
from questloop.episodes.trace import Trace
from questloop.planner.copilot import Copilot
from questloop.training.rollout import Rollout


@dataclass
class Sample:
    """What one call of `QuestRunner.sample` brings."""

    runner: int
    rollout: Rollout
    report: SlotReport
    trace: Trace | None
    seconds: float  # wall time of the sampling itself
    policy_seconds: float  # a step, to the policy's decision for all slots


class QuestRunner(EnvRunner, Checkpointable):
    """Holds `N` slots of a `BatchEnv`, a copy of the policy and one random stream a slot.

    Copilots act before each step: with PLANNER=on, takeovers put the planner's actions in the policy's place
    and mask them out of PPO; with HINT_INTERVAL, hints point the environment's targets.

    An application error is returned, not raised: RLlib takes an exception for a broken process and restarts
    it, which would hide a wrong ROM behind endless restarts.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        torch.set_num_threads(1)
        self.index = max(0, (self.worker_index or 0) - 1)
        slots = self.config.num_envs_per_env_runner
        self.env = self.config.batch_env(slots)
        self.make_module()
        self.streams: list[np.random.Generator] = []
        planning = self.config.planning
        self.copilots: list[Copilot] = planning(self.env) if planning is not None else []
        self._rollout: Rollout | None = None
        self._policy_seconds = 0.0
        self._obs = np.zeros((slots, *self.env.observation_shape), self.env.observation_dtype)

    def get_spaces(self) -> dict[str, tuple[gym.Space, gym.Space]]:
        spaces = (self.config.observation_space, self.config.action_space)
        return {INPUT_ENV_SPACES: spaces, INPUT_ENV_SINGLE_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    def make_module(self) -> None:
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.build()

    def assert_healthy(self) -> None:
        assert self.env is not None
        assert self.module is not None

    def sample(  # type: ignore[override]
        self,
        steps: int = 1,
        weights: dict[str, Any] | None = None,
        guidance: Guidance | None = None,
        incarnation: int = 0,
        **kwargs: Any,
    ) -> Sample | Exception:
        """Step every slot `steps` times under the policy of `weights` (unset: the last one).

        `incarnation` counts the runners lost so far: one that was started again draws new random numbers.
        """
        try:
            if weights is not None:
                self.module.set_state(weights)
            if guidance is not None:
                self.env.follow(guidance)
            if not self.streams:
                first = self.index * self.env.num_slots
                self.streams = slot_streams(self.config.seed or 0, first, self.env.num_slots, incarnation)
                self.env.seed(self.streams)
                self.env.reset(self._obs)
            started = time.perf_counter()
            rollout = self._sample(steps)
            report, trace = self.env.report(), self.env.trace()
            report.copilots = {copilot.name: copilot.report() for copilot in self.copilots}
            ended = [each for copilot in self.copilots for each in copilot.take_ended()]
            if trace is not None:
                _mark(trace, rollout, self._modes, ended)
            return Sample(
                runner=self.index,
                rollout=rollout,
                report=report,
                trace=trace,
                seconds=time.perf_counter() - started,
                policy_seconds=self._policy_seconds / steps,
            )
        except Exception as error:
            return error

    def _sample(self, steps: int) -> Rollout:
        env, buffers = self.env, self._buffers(steps)
        uniform = np.stack([stream.random(steps, np.float32) for stream in self.streams], axis=1)
        logits_of = self.module[DEFAULT_MODULE_ID].logits
        if self.config.record:
            env.start_trace(steps)
        buffers.observations[0] = self._obs
        if buffers.features is not None:
            buffers.features[0] = env.features
        final_index, final_obs, final_features = [], [], []
        still = np.zeros_like(buffers.mask)
        self._modes = np.zeros(buffers.action.shape, np.uint8)
        self._policy_seconds = 0.0
        with torch.inference_mode():
            for t in range(steps):
                asked = time.perf_counter()
                logits = logits_of(torch.from_numpy(buffers.observations[t])).numpy()
                draw_actions(logits, uniform[t], buffers.action[t], buffers.logp[t])
                self._policy_seconds += time.perf_counter() - asked
                for copilot in self.copilots:
                    copilot.act(buffers.action[t], buffers.mask[t], self._modes[t])
                if env.paused:
                    still[t, list(env.paused)] = True
                env.step(
                    buffers.action[t], buffers.observations[t + 1], buffers.reward[t], buffers.boundary[t]
                )
                if buffers.features is not None:
                    buffers.features[t + 1] = env.features
                over = buffers.boundary[t]
                if over.any():
                    slots = np.flatnonzero(ends_episode(over))
                    final_index.append(t * env.num_slots + slots)
                    final_obs.append(env.final_obs[slots].copy())
                    for copilot in self.copilots:
                        copilot.ended(slots)
                    if buffers.features is not None:
                        final_features.append(env.final_features[slots].copy())
        self._obs[:] = buffers.observations[-1]
        self.num_env_steps_sampled_lifetime += steps * env.num_slots
        buffers.still = still if still.any() else None
        cut_at_handovers(buffers)
        if final_index:
            buffers.final_index = np.concatenate(final_index)
            buffers.final_obs = np.concatenate(final_obs)
            if buffers.features is not None:
                buffers.final_features = np.concatenate(final_features)
        return buffers

    def _buffers(self, steps: int) -> Rollout:
        """The preallocated buffers, without what the last rollout left in the ragged fields."""
        env = self.env
        if self._rollout is None or self._rollout.shape != (steps, env.num_slots):
            self._rollout = empty_rollout(steps, env.num_slots, env.observation_shape, env.observation_dtype)
        rollout = self._rollout
        rollout.mask[:] = True
        rollout.final_index = np.zeros(0, np.int64)
        rollout.final_obs = np.zeros((0, *env.observation_shape), env.observation_dtype)
        if env.features is not None:
            size = env.features.shape[1]
            if rollout.features is None:
                rollout.features = np.zeros((steps + 1, env.num_slots, size), np.float32)
            rollout.final_features = np.zeros((0, size), np.float32)
        return rollout

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What RLlib's own checkpoint holds of a runner: the weights. Slots are in `slot_state()`."""
        return {COMPONENT_RL_MODULE: self.module.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        if COMPONENT_RL_MODULE in state:
            weights = state[COMPONENT_RL_MODULE]
            self.module.set_state(ray.get(weights) if isinstance(weights, ray.ObjectRef) else weights)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple, dict[str, Any]]:
        return (), {"config": self.config}

    def slot_state(self) -> dict[str, Any] | Exception:
        """Everything that the next rollout depends on, but the weights."""
        try:
            return {
                "runner": self.index,
                "env": self.env.state_dict(),
                "streams": stream_states(self.streams),
                **{copilot.name: copilot.state_dict() for copilot in self.copilots},
            }
        except Exception as error:
            return error

    def load_slot_state(self, states: list[dict[str, Any]]) -> Exception | None:
        """Go on from this runner's part of the states of all runners."""
        try:
            state = next(state for state in states if state["runner"] == self.index)
            self.env.load_state_dict(state["env"])
            self.streams = slot_streams(0, 0, self.env.num_slots)
            load_stream_states(self.streams, state["streams"])
            self.env.seed(self.streams)
            self.env.observe(self._obs)
            for copilot in self.copilots:
                if copilot.name in state:
                    copilot.load_state_dict(state[copilot.name])
        except Exception as error:
            return error
        return None

    def stop(self) -> None:
        for copilot in self.copilots:
            copilot.close()
        self.env.close()


def empty_rollout(steps: int, slots: int, shape: tuple[int, ...], dtype: np.dtype) -> Rollout:
    """Buffers of `[T, N]`, every step unmasked."""
    return Rollout(
        observations=np.zeros((steps + 1, slots, *shape), dtype),
        action=np.zeros((steps, slots), np.uint8),
        logp=np.zeros((steps, slots), np.float32),
        reward=np.zeros((steps, slots), np.float32),
        boundary=np.zeros((steps, slots), np.uint8),
        mask=np.ones((steps, slots), np.bool_),
        final_index=np.zeros(0, np.int64),
        final_obs=np.zeros((0, *shape), dtype),
    )


def cut_at_handovers(rollout: Rollout) -> None:
    """Mark the last step before every change between policy and planner as a handover."""
    before = rollout.boundary[:-1]
    changes = rollout.mask[1:] != rollout.mask[:-1]
    before[changes & (before == Boundary.NONE)] = Boundary.HANDOVER


def _mark(trace: Trace, rollout: Rollout, modes: NDArray[np.uint8], ended: list[EndedTakeover]) -> None:
    """Put into a trace what the environment does not know: who played, where that changed, by which plans."""
    trace.mode[:] = modes
    trace.boundary[:] = rollout.boundary
    trace.takeovers = [(each.row, each.slot, _takeover(each, trace)) for each in ended]


def _takeover(ended: EndedTakeover, trace: Trace) -> Takeover:
    first = int(trace.episode_step[ended.row, ended.slot]) + ended.past - ended.takeover.steps
    return ended.takeover.model_copy(update={"first_step": first})


def draw_actions(
    logits: NDArray[np.float32],
    uniform: NDArray[np.float32],
    action: NDArray[np.uint8],
    logp: NDArray[np.float32],
) -> None:
    """Sample one action a row by inverting the distribution function at `uniform[N]`."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    cumulative = np.exp(shifted).cumsum(axis=1)
    total = cumulative[:, -1]
    chosen = (cumulative <= (uniform * total)[:, None]).sum(axis=1)
    np.minimum(chosen, logits.shape[1] - 1, out=chosen)
    action[:] = chosen
    logp[:] = shifted[np.arange(len(chosen)), chosen] - np.log(total)
