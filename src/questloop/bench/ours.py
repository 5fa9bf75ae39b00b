"""Measures Questloop's own PPO end to end, as `questloop rollouts` runs it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch

from questloop.bench.game import FRAME_SKIP
from questloop.env.world import game_world
from questloop.game.observation import OBSERVATION_SIZE, OBSERVATION_VERSION
from questloop.game.start_states import StartStates
from questloop.reward_model.network import Ensemble, Measured, RewardModel, RewardReading
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.training.epoch_plan import EpochPlan, EpochReport
from questloop.training.trainer import Trainer

PPO_EPOCHS = 4
BATCH = 4096
UPDATES = 4
"""of a round, which is an epoch of its own"""


@dataclass(frozen=True)
class Parts:
    """What is switched on beside event and coverage rewards."""

    rnd: bool = True
    shaping: bool = True
    export: bool = False


class Ours:
    """A trainer that is kept between rounds, so that a round measures training and nothing else."""

    def __init__(
        self,
        starts: StartStates,
        parts: Parts,
        seed: int = 0,
        epoch_updates: int = UPDATES,
        frame_skip: int = FRAME_SKIP,
    ) -> None:
        """`epoch_updates`: of the epochs that `run` will play, by which the export budget goes."""
        self._folder = TemporaryDirectory(prefix="questloop-bench-")
        settings = load(
            flags={
                "seed": seed,
                "frame_skip": frame_skip,
                "export_segments_per_epoch": _budget(epoch_updates),
                "ppo_epochs": PPO_EPOCHS,
                "rnd_coef": 0.5 if parts.rnd else 0.0,
                "shaping_coef": 1.0 if parts.shaping else 0.0,
                "store_url": str(Path(self._folder.name) / "store"),
            }
        )
        self._store = open_store(settings.store)
        world = game_world(settings)
        world = replace(
            world,
            build=partial(world.build, starts=starts),  # type: ignore[call-arg]
            recording=world.recording if parts.export else None,
        )
        self._seed = seed
        self._trainer = Trainer(settings, self._store, world)
        self._epoch, self._step = 0, 0
        self._digest: str | None = None
        self.reports: list[EpochReport] = []
        self.epoch_rates: list[float] = []
        """steps per second of each `run`, with what its end waits for: export and checkpoint"""
        self.run(1)
        if parts.shaping:
            self._digest = self._store.put(keys.reward_model(0), _reward_model()).sha256
            self.run(1)  # the critic is re-fitted once a potential, outside of what is measured

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._trainer.close()
        self._folder.cleanup()

    def run(self, updates: int) -> list[float]:
        """Steps per second of each of so many updates, sampling and learning together."""
        marks = [time.perf_counter()]
        plan = EpochPlan(
            "bench", self._epoch, 1, self._seed, self._step, self._step + updates * BATCH, self._digest
        )
        report = self._trainer.run_epoch(plan, lambda _: marks.append(time.perf_counter()))
        self.epoch_rates.append(updates * BATCH / (time.perf_counter() - marks[0]))
        self._epoch, self._step = self._epoch + 1, report.step_end
        self.reports.append(report)
        steps = (report.step_end - report.step_start) / report.updates
        return [steps / (after - before) for before, after in pairwise(marks)]


def _budget(updates: int) -> int:
    """Segments that an epoch of so many updates may export: as many a step as the defaults allow."""
    default = load()
    budget = default.store.export_segments_per_epoch
    assert budget != "all"
    return round(budget * updates * BATCH / default.loop.epoch_steps)


def _reward_model() -> bytes:
    """An untrained reward model: shaping costs the same whatever it says."""
    generator = torch.Generator().manual_seed(0)
    model = RewardModel(
        Ensemble(torch.zeros(OBSERVATION_SIZE), torch.ones(OBSERVATION_SIZE), generator),
        torch.randn(256, OBSERVATION_SIZE, generator=generator),
        reading=RewardReading.MEAN,
        observation_version=OBSERVATION_VERSION,
        measured=Measured(0.75, 0.7, 0.75, 0.7),
    )
    return model.to_bytes()
