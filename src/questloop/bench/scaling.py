"""Measures how sampling scales with the number of runners, on an environment that only sleeps."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from numpy.typing import NDArray

from questloop.env.toys import Corridor
from questloop.training.algorithm import QuestConfig, QuestPPO
from questloop.training.cluster import quiet_stderr, start_local
from questloop.training.rollout import Bytes, Floats

SLEEP_S = 0.025
SLOTS = 32
STEPS = 64


class Sleeper(Corridor):
    """A corridor whose vector step takes `SLEEP_S`, like 32 emulators on a core of their own."""

    def step(self, action: Bytes, obs: NDArray[Any], reward: Floats, boundary: Bytes) -> None:
        time.sleep(SLEEP_S)
        super().step(action, obs, reward, boundary)


def sampling_rates(runner_counts: tuple[int, ...], rounds: int) -> dict[int, tuple[list[float], list[float]]]:
    """Steps per second of sampling, and the driver's milliseconds per batch, by number of runners."""
    size = 128
    if ray.is_initialized():
        ray.shutdown()
    start_local(max(runner_counts))
    found = {}
    for runners in runner_counts:
        config = QuestConfig().play(
            partial(Sleeper, length=size, limit=10_000),
            gym.spaces.Box(0, 1, (size,), np.float32),
            gym.spaces.Discrete(2),
            STEPS,
        )
        config.env_runners(num_env_runners=runners, num_envs_per_env_runner=SLOTS)
        with quiet_stderr():
            algorithm = QuestPPO(config=config.debugging(seed=0, log_level="ERROR"))
        algorithm.sample(2)
        rates, driver_ms = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            samples, _ = algorithm.sample(STEPS)
            elapsed = time.perf_counter() - began
            rates.append(runners * SLOTS * STEPS / elapsed)
            driver_ms.append(1000 * (elapsed - max(sample.seconds for sample in samples)))
        found[runners] = (rates, driver_ms)
        algorithm.stop()
    ray.shutdown()
    return found
