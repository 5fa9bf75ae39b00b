"""What a GPU does for the learner, and what cores do for it: same figures as the CPU, and how much faster.

    python benchmarks/training/gpu.py --output benchmarks/training/gpu.json

Needs a CUDA build of torch; `--device cpu --tiny` tries the script anywhere. Under four minutes on 16 cores.
The file is written anew after every part, so that a run which is cut short keeps what it had.

- `parity`: a learner on each device learns from the same rollouts of the game, with curiosity and shaping:
  how far losses and weights are apart, whether the device gives the same weights twice, and whether the CPU
  goes on from its checkpoint.
- `learner`: steps of a batch that a learner takes a second, sampling left out.
- `loop`: sampling and learning together on all cores but one, the learner on each device.
- `runners`: the same for 1, 2, 4, 8 and 15 runners of the vector policy, beside what so many raw emulators
  make.
- `layout`: what RAY_WORKERS=auto and ENVS_PER_WORKER=auto choose here.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.core.learner.training_data import TrainingData

from questloop.bench.game import RawEmulators, bench_starts
from questloop.env.world import game_world
from questloop.machine import machine_cores, machine_memory_mb
from questloop.settings import Settings, load
from questloop.storage.store import open_store
from questloop.training.autoscale import Layout, choose_layout
from questloop.training.cluster import start_local
from questloop.training.epoch_plan import EpochPlan
from questloop.training.learner import QuestLearner, as_rllib
from questloop.training.rollout import Rollout
from questloop.training.runner import QuestRunner, empty_rollout
from questloop.training.shaper import Shaper
from questloop.training.trainer import Trainer, quest_config

TOLERANCE = 1e-3
"""of the norm of each layer's weights, after the parity run's updates"""
PARITY_UPDATES = 3
"""the first warms curiosity up, the second is the first one shaped"""
OBSERVATIONS = ("vector", "visual")


class Slope:
    """A potential for shaping that costs nothing: the first number of the observation."""

    sha256 = "a" * 64

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return obs[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="device beside the CPU")
    parser.add_argument("--runners", type=int, nargs="+", default=[1, 2, 4, 8, 15])
    parser.add_argument("--updates", type=int, default=5, help="updates of each measurement")
    parser.add_argument("--tiny", action="store_true", help="small batches, to try the script")
    parser.add_argument("--seconds", type=float, default=225, help="no part begins after this")
    parser.add_argument("--output", type=Path, help="file; unset: standard output")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: torch sees no GPU here; --device cpu tries the script without one")
    os.environ.update(OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    began = time.perf_counter()
    document: dict[str, Any] = {"command": " ".join(sys.argv), "machine": machine(arguments.device)}
    for part in (layout, parity, learner, loop, runners):
        if time.perf_counter() - began > arguments.seconds:
            document[part.__name__] = "left out: no time"
        else:
            document[part.__name__] = _told(part, arguments)
        document["seconds"] = round(time.perf_counter() - began, 1)
        if arguments.output:
            arguments.output.write_text(json.dumps(document, indent=1) + "\n")
        print(f"{part.__name__}: {document['seconds']} s", file=sys.stderr, flush=True)
    if ray.is_initialized():
        ray.shutdown()
    if not arguments.output:
        print(json.dumps(document, indent=1))
    if any(str(found).startswith("failed") for found in document.values()):
        sys.exit(1)


def _told(part: Callable[[argparse.Namespace], dict[str, Any]], arguments: argparse.Namespace) -> Any:
    """What a part found; where it fails the others are measured all the same."""
    try:
        return part(arguments)
    except Exception as error:
        traceback.print_exc()
        return f"failed: {error}"


def machine(device: str) -> dict[str, Any]:
    """Where this runs."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {
        "cores": machine_cores(),
        "memory_mb": round(machine_memory_mb()),
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
    }


def settings_of(arguments: argparse.Namespace, **flags: Any) -> Settings:
    """The defaults of training with four passes, as `questloop bench` has them."""
    sizes = {"batch_size": 256, "minibatch_size": 64} if arguments.tiny else {}
    return load(flags={"ppo_epochs": 4, **sizes, **flags})


def layout(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `auto` chooses."""
    return asdict(choose_layout(load().training, machine_cores(), machine_memory_mb()))


# The same figures


def parity(arguments: argparse.Namespace) -> dict[str, Any]:
    """How far a learner on the device is from one on the CPU."""
    return {observation: _parity(observation, arguments) for observation in OBSERVATIONS}


def _parity(observation: str, arguments: argparse.Namespace) -> dict[str, Any]:
    settings = settings_of(
        arguments, observation=observation, batch_size=256, minibatch_size=64, episode_length=24
    )
    runner, host = build(settings, Layout(0, 8, 32), "cpu")
    device, again = (build(settings, Layout(0, 8, 32), arguments.device)[1] for _ in range(2))
    learners = (host, device, again)
    for other in learners[1:]:
        copy_state(host, other)
    apart = 0.0
    for update in range(PARITY_UPDATES):
        rollout = runner.sample(32, host.module.get_state()).rollout
        for each in learners:
            if update == 1:
                each.set_shaper(Shaper(Slope(), 1.0, "on"))  # type: ignore[arg-type]
            learn(each, copy.deepcopy(rollout))
        apart = max(apart, *(_difference(host, device, name) for name in host.statistics))
    here, there = weights(host), weights(device)
    resumed = build(settings, Layout(0, 8, 32), "cpu")[1]
    copy_state(device, resumed)
    runner.stop()
    weights_apart = max(_relative(here[name], there[name]) for name in here)
    return {
        "updates": PARITY_UPDATES,
        "statistics_apart": apart,
        "weights_apart": weights_apart,
        "within_tolerance": weights_apart < TOLERANCE,
        "same_twice": _same(there, weights(again)),
        "cpu_goes_on_from_it": _same(there, weights(resumed)),
    }


def _relative(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / max(np.linalg.norm(one), 1e-12))


def _same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def build(settings: Settings, layout: Layout, device: str) -> tuple[QuestRunner, QuestLearner]:
    """A runner of the game, on the CPU, and a learner."""
    gpus = 1.0 if device == "cuda" else 0.0
    settings = replace_training(settings, learner_gpus=gpus)
    config = quest_config(settings, game_world(settings), layout, seed=0)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=layout.slots_per_runner)
    config.record = False
    runner = QuestRunner(config=config, worker_index=0)
    spec = config.get_multi_rl_module_spec(spaces=runner.get_spaces())
    learner = QuestLearner(config=config, module_spec=spec)
    learner.build()
    return runner, learner


def replace_training(settings: Settings, **changed: Any) -> Settings:
    """The same settings with another learner."""
    other = copy.copy(settings)
    object.__setattr__(other, "training", settings.training.model_copy(update=changed))
    return other


def copy_state(source: QuestLearner, target: QuestLearner) -> None:
    """Put `target` where `source` is, by what a checkpoint holds."""
    target.load_arrays(*source.arrays())
    target.load_counts(source.counts())


def learn(learner: QuestLearner, rollout: Rollout) -> None:
    """One update, as the algorithm makes it."""
    learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))


def weights(learner: QuestLearner) -> dict[str, np.ndarray]:
    """The weights of every layer of policy, critic and curiosity that is learned."""
    policy, _, curiosity = learner.arrays()
    learned = policy | {name: array for name, array in curiosity.items() if name.startswith("predictor.")}
    return {name: array.astype(np.float64) for name, array in learned.items() if name.endswith("weight")}


def _difference(one: QuestLearner, other: QuestLearner, name: str) -> float:
    return abs(one.statistics[name] - other.statistics[name]) / max(1.0, abs(one.statistics[name]))


# Speed of the learner


def learner(arguments: argparse.Namespace) -> dict[str, Any]:
    """Steps a second of learning alone, on each device."""
    return {
        observation: {
            device: _learning_rate(observation, device, arguments)
            for device in dict.fromkeys((arguments.device, "cpu"))
        }
        for observation in OBSERVATIONS
    }


def _learning_rate(observation: str, device: str, arguments: argparse.Namespace) -> float:
    settings = settings_of(arguments, observation=observation)
    slots = 8 if arguments.tiny else 32
    steps = settings.training.batch_size // slots
    runner, learner = build(settings, Layout(0, slots, steps), device)
    runner.stop()
    rollout = _noise(runner, steps, slots)
    slow = device == "cpu" and observation == "visual"
    if not slow:
        learn(learner, rollout)  # the first compiles, and warms curiosity's statistics up
    rates = []
    for _ in range(1 if slow else arguments.updates):
        began = time.perf_counter()
        learn(learner, rollout)
        rates.append(steps * slots / (time.perf_counter() - began))
    return round(median(rates), 1)


def _noise(runner: QuestRunner, steps: int, slots: int) -> Rollout:
    """A rollout of random observations: a learner's time does not depend on them."""
    rng = np.random.default_rng(0)
    env = runner.env
    rollout = empty_rollout(steps, slots, env.observation_shape, env.observation_dtype)
    if rollout.observations.dtype == np.uint8:
        rollout.observations[:] = rng.integers(0, 255, rollout.observations.shape, np.uint8)
    else:
        rollout.observations[:] = rng.random(rollout.observations.shape, np.float32)
    if size := runner.config.features_size:  # the vectors beside what the policy sees
        rollout.features = rng.random((steps + 1, slots, size), np.float32)
        rollout.final_features = np.zeros((0, size), np.float32)
    rollout.action[:] = rng.integers(0, 8, rollout.action.shape)
    rollout.logp[:] = -2.0
    rollout.reward[:] = rng.random(rollout.reward.shape, np.float32)
    return rollout


# The whole loop


def loop(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sampling and learning together on all cores but one."""
    count = max(1, machine_cores() - 1)
    return {
        f"{observation} on {device}": _rate(observation, device, count, arguments)
        for observation in OBSERVATIONS
        for device in dict.fromkeys((arguments.device, "cpu"))
    }


def runners(arguments: argparse.Namespace) -> dict[str, Any]:
    """How the vector policy's loop scales with runners, the learner on the CPU."""
    raw = RawEmulators(max(arguments.runners), bench_starts(False))
    limits = {count: raw.steps_per_second(0.2 if arguments.tiny else 1, count) for count in arguments.runners}
    raw.close()
    return {
        str(count): _rate("vector", "cpu", count, arguments) | {"raw_steps_per_second": round(limits[count])}
        for count in arguments.runners
    }


def _rate(observation: str, device: str, count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    if not ray.is_initialized():
        start_local(max([*arguments.runners, machine_cores()]))
    with TemporaryDirectory(prefix="questloop-gpu-") as folder:
        settings = settings_of(
            arguments,
            observation=observation,
            learner_gpus=1 if device == "cuda" else 0,
            ray_workers=count,
            store_url=folder,
        )
        world = replace(game_world(settings), recording=None)
        slow = device == "cpu" and observation == "visual"
        updates = 1 if slow else min(3, arguments.updates)
        marks: list[tuple[float, float]] = []
        with Trainer(settings, open_store(settings.store), world) as trainer:

            def note(_: Any) -> None:
                last = trainer.algorithm.last_update
                marks.append((last.sample_seconds, last.learn_seconds))

            batch = settings.training.batch_size
            trainer.run_epoch(EpochPlan("gpu", 0, 1, 0, 0, 1 if slow else batch))
            report = trainer.run_epoch(EpochPlan("gpu", 1, 1, 0, batch, batch * (1 + updates)), note)
            chosen = trainer.layout
    sampling, learning = (median(column) for column in zip(*marks, strict=True))
    return {
        "layout": asdict(chosen),
        "steps_per_second": round(chosen.batch_size / (sampling + learning)),
        "sample_seconds": round(sampling, 4),
        "learn_seconds": round(learning, 4),
        "updates": report.updates,
    }


if __name__ == "__main__":
    main()
