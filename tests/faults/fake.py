"""A fast fake of the game and of Ray, for what is not about them.

`Replay` plays a tape of the real game again instead of emulating it; `LocalAlgorithm` is the real runner and
learner in one process, without Ray. Trainer, exporter, checkpoints and all that follows are the real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core.learner.training_data import TrainingData

from questloop.env.game_env import GameEnv
from questloop.env.slot_report import SlotReport
from questloop.env.starts import Guidance
from questloop.env.tape import Tape
from questloop.env.world import World, game_world
from questloop.episodes.boundary import Boundary
from questloop.episodes.trace import EpisodeStart, Trace
from questloop.reward_model import fit
from questloop.settings import Settings, TrainingSettings
from questloop.training import trainer
from questloop.training.algorithm import QuestConfig, Update
from questloop.training.autoscale import Layout
from questloop.training.learner import as_rllib
from questloop.training.rollout import concatenate
from questloop.training.runner import QuestRunner

TAPE_STEPS = 2000
PNG_STRIDE = 20
_SHORT, _LONG = 32, 200


@dataclass(frozen=True)
class Recorded:
    """A play of the real game, step by step."""

    taps: NDArray[np.uint8]  # [S, K]
    obs: NDArray[np.float32]  # [S, 128]
    parts: NDArray[np.float32]  # [S, P]
    milestones: NDArray[np.uint64]  # [S]
    places: NDArray[np.int64]  # [S]


def record(path: Path, steps: int = TAPE_STEPS) -> Path:
    """Play the bundled game by seeded random moves and keep what the runner would see."""
    settings = Settings()
    env = GameEnv(1, settings.game, settings.rewards)
    rng = np.random.default_rng(0)
    obs, reward, boundary = np.zeros((1, 128), np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint8)
    env.reset(obs)
    rows: dict[str, list[Any]] = {name: [] for name in Recorded.__dataclass_fields__}
    action = 0
    for step in range(steps):
        if step % 8 == 0:
            action = int(rng.integers(0, 6))
        env.step(np.array([action], np.uint8), obs, reward, boundary)
        rows["taps"].append(env.batch.taps[0].copy())
        rows["obs"].append(obs[0].copy())
        rows["parts"].append(env.rewards.parts[0].copy())
        rows["milestones"].append(np.uint64(env.columns.milestones[0]))
        rows["places"].append(int(env.columns.place[0]))
    env.close()
    np.savez(path, **{name: np.array(values) for name, values in rows.items()})
    return path


class Replay:
    """A `BatchEnv` that moves along the tape; which way depends on the action, so the policy matters.

    Slot 0 plays long episodes, which outlive segments and epochs, the others short ones.
    """

    num_actions = 8
    observation_shape: tuple[int, ...] = (128,)
    observation_dtype = np.dtype(np.float32)
    features: NDArray[np.float32] | None = None
    final_features: NDArray[np.float32] | None = None
    paused = ()

    def __init__(self, num_slots: int, tape: Path, pictures: bool = True) -> None:
        with np.load(tape) as arrays:
            self.recorded = Recorded(**{name: arrays[name] for name in Recorded.__dataclass_fields__})
        self.num_slots, self._pictures = num_slots, pictures
        self.final_obs = np.zeros((num_slots, 128), np.float32)
        self.at = np.zeros(num_slots, np.int64)
        self.age = np.zeros(num_slots, np.int64)
        self._limit = np.where(np.arange(num_slots) == 0, _LONG, _SHORT)
        self._streams: Sequence[np.random.Generator] = []
        self._tape: Tape | None = None
        self._rooms: dict[int, int] = {}
        self._finished = 0

    def seed(self, streams: Sequence[np.random.Generator]) -> None:
        self._streams = list(streams)

    def reset(self, obs: NDArray) -> None:
        self._begin(np.arange(self.num_slots))
        self.observe(obs)

    def step(
        self,
        action: NDArray[np.uint8],
        obs: NDArray,
        reward: NDArray[np.float32],
        boundary: NDArray[np.uint8],
    ) -> None:
        recorded = self.recorded
        self.at = (self.at + 1 + action % 3) % len(recorded.obs)
        age = self.age.copy()
        self.age += 1
        parts = recorded.parts[self.at]
        reward[:] = parts.sum(axis=1)
        over = self.age >= self._limit
        boundary[:] = np.where(over, Boundary.TRUNCATED, Boundary.NONE)
        for place in recorded.places[self.at].tolist():
            self._rooms[place & 2047] = self._rooms.get(place & 2047, 0) + 1
        if self._tape is not None:
            self._record(age, action, boundary, parts)
        if over.any():
            slots = np.flatnonzero(over)
            self.final_obs[slots] = recorded.obs[self.at[slots]]
            self._finished += len(slots)
            self._begin(slots)
        self.observe(obs)

    def observe(self, obs: NDArray) -> None:
        obs[:] = self.recorded.obs[self.at]

    def follow(self, guidance: Guidance) -> None:
        """Every episode begins somewhere on the tape."""

    def report(self) -> SlotReport:
        report = SlotReport(
            finished_rooms=[1] * self._finished,
            finished_milestones=[0] * self._finished,
            finished_starts=["tape"] * self._finished,
            rooms=np.ones(self.num_slots, np.int64),
            milestones=np.zeros(self.num_slots, np.uint64),
            room_steps=self._rooms,
        )
        self._rooms, self._finished = {}, 0
        return report

    def start_trace(self, steps: int) -> None:
        recorded = self.recorded
        self._tape = Tape(steps, self.num_slots, recorded.taps.shape[1], 128, recorded.parts.shape[1])
        for slot in np.flatnonzero(self.age == 0):
            self._tape.start(int(slot), EpisodeStart(state="tape"))

    def trace(self) -> Trace | None:
        tape, self._tape = self._tape, None
        return tape.trace() if tape else None

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at.copy(), "age": self.age.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at[:] = state["at"]
        self.age[:] = state["age"]

    def close(self) -> None:
        """Nothing to release."""

    def _begin(self, slots: NDArray[np.intp]) -> None:
        for slot in slots.tolist():
            self.at[slot] = self._streams[slot].integers(len(self.recorded.obs))
            if self._tape is not None:
                self._tape.start(slot, EpisodeStart(state="tape"))
        self.age[slots] = 0

    def _record(self, age: NDArray, action: NDArray, boundary: NDArray, parts: NDArray) -> None:
        recorded, tape = self.recorded, self._tape
        assert tape is not None
        if self._pictures:
            for slot in np.flatnonzero(age % PNG_STRIDE == 0).tolist():
                tape.picture(slot)[:] = self.at[slot] % 251
        tape.add(
            age, action, boundary, recorded.taps[self.at], recorded.obs[self.at], parts,
            recorded.milestones[self.at], {},
        )  # fmt: skip


class LocalAlgorithm:
    """What the trainer wants of `QuestPPO`, with the real runner and learner and no Ray."""

    def __init__(self, config: QuestConfig) -> None:
        config.env_runners(num_env_runners=0)
        self.config = config
        self.guidance: Guidance | None = None
        self.runners_lost = 0
        self.runner = QuestRunner(config=config, worker_index=0)
        spec = config.get_multi_rl_module_spec(spaces=self.runner.get_spaces())
        self.learner = config.learner_class(config=config, module_spec=spec)
        self.learner.build()

    def step_once(self, steps: int) -> Update:
        weights = self.learner.module.get_state()
        sample = self.runner.sample(steps=steps, weights=weights, guidance=self.guidance)
        if isinstance(sample, Exception):
            raise sample
        rollout = concatenate([sample.rollout])
        batch = as_rllib(self.learner.prepare(rollout))
        self.learner.update(training_data=TrainingData(batch=batch))
        return Update([sample], [], rollout, self.learner.statistics, 0.0, 0.0)

    def slot_states(self) -> list[dict[str, Any]]:
        state = self.runner.slot_state()
        if isinstance(state, Exception):
            raise state
        return [state]

    def load_slot_states(self, states: list[dict[str, Any]]) -> None:
        error = self.runner.load_slot_state(states)
        if error is not None:
            raise error

    def save_to_path(self, folder: str) -> None:
        """In place of RLlib's own checkpoint."""
        Path(folder, "algorithm_state.pkl").write_bytes(b"of the fake")

    def stop(self) -> None:
        self.runner.stop()


def play_the_fake(tape: Path) -> None:
    """Have this process's trainers play the tape on one local runner from now on, and learn briefly."""

    def layout(training: TrainingSettings) -> Layout:
        torch.set_num_threads(1)
        slots = int(training.envs_per_worker)
        return Layout(1, slots, -(-training.batch_size // slots))

    fit.MAX_STEPS = 40
    trainer.start_ray = layout
    trainer.QuestPPO = LocalAlgorithm  # type: ignore[assignment, misc]
    trainer.game_world = lambda settings: world(tape)


@cache
def world(tape: Path) -> World:
    """The bundled game's world, with the tape in its place, which knows no aims."""
    return replace(game_world(Settings(aims=False)), build=partial(Replay, tape=tape))
