"""A corridor too long for chance: does curiosity reach the end where PPO alone does not?

    python benchmarks/learning/corridor.py --length 80 --steps 409600 --seeds 0 1 2 3 4

The only reward waits in the last cell, and an episode has half as many steps again as the way there is long.
Told is the share of episodes that arrive, in each tenth of the run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import ray

from questloop.env.toys import Corridor
from questloop.env.world import World
from questloop.settings import load
from questloop.storage.store import open_store
from questloop.training.cluster import start_ray
from questloop.training.epoch_plan import EpochPlan
from questloop.training.trainer import Trainer

ARMS = {"ppo": {"rnd_coef": 0.0}, "ppo + rnd": {"rnd_coef": 0.5}}
PARTS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--length", type=int, default=80, help="cells")
    parser.add_argument("--steps", type=int, default=409_600, help="of all slots together")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("corridor.json"))
    arguments = parser.parse_args()
    start_ray(load().training)
    found: dict[str, list[list[float]]] = {arm: [] for arm in ARMS}
    for seed in arguments.seeds:
        for arm, flags in ARMS.items():
            found[arm].append(arrivals(arguments.length, arguments.steps, flags | {"seed": seed}))
            print(f"seed {seed}, {arm}: {found[arm][-1]}", flush=True)
    ray.shutdown()
    document = {
        "command": f"python benchmarks/learning/corridor.py --length {arguments.length} "
        f"--steps {arguments.steps} --seeds {' '.join(map(str, arguments.seeds))}",
        "share_that_arrives": found,
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


def arrivals(length: int, steps: int, flags: dict[str, float]) -> list[float]:
    """The share of the episodes of each part of one run that arrive."""
    world = World(
        name="corridor",
        build=partial(Corridor, length=length, limit=length * 3 // 2),
        observation_space=gym.spaces.Box(0, 1, (length,), np.float32),
        action_space=gym.spaces.Discrete(2),
        observation_version=1,
        policy_version="corridor-1",
    )
    settings = load(flags={"ray_workers": 1, "envs_per_worker": 32, "lr": 3e-4, **flags})
    shares, part = [], steps // PARTS
    with tempfile.TemporaryDirectory() as folder, Trainer(settings, open_store(folder), world) as trainer:
        step = 0
        for epoch in range(PARTS):
            report = trainer.run_epoch(EpochPlan("corridor", epoch, 1, int(flags["seed"]), step, step + part))
            step = report.step_end
            shares.append(round(report.return_mean or 0.0, 3))
    return shares


if __name__ == "__main__":
    main()
