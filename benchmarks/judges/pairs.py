"""How long the reward model takes for 100,000 pairs.

    python benchmarks/judges/pairs.py --out benchmarks/judges/pairs.json

Segments are planted: a feature rises with a truth that the judge's score follows with noise. The whole
stage is timed, both readings, members, measurement and all, by the clock and by processor time. It runs in
one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from questloop.game.observation import OBSERVATION_SIZE, OBSERVATION_VERSION
from questloop.reward_model.preferences import ScoredSegment
from questloop.reward_model.train import train_reward_model

STEPS = 300
GAMMA = 0.999


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--segments", type=int, default=800)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    segments = list(planted(arguments.segments, arguments.episodes, arguments.seed))
    wall, cpu = time.perf_counter(), time.process_time()
    _, report = train_reward_model(
        segments, observation_version=OBSERVATION_VERSION, gamma=GAMMA, seed=arguments.seed
    )
    document = {
        "command": f"python benchmarks/judges/pairs.py --segments {arguments.segments}",
        "segments": len(segments),
        "pairs_learned": report.learned,
        "pairs_held_out": report.held_out,
        "wall_s": round(time.perf_counter() - wall, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 1),
        "accuracy": round(report.accuracy.value, 3),
        "gold_accuracy": round(report.gold_accuracy.value, 3),
    }
    print(json.dumps(document, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def planted(segments: int, episodes: int, seed: int) -> Iterator[ScoredSegment]:
    """Segments whose first feature climbs with a truth that the score and the outcome follow with noise."""
    rng = np.random.default_rng(seed)
    for number in range(segments):
        truth = rng.random()
        observations = rng.normal(size=(STEPS, OBSERVATION_SIZE)).astype(np.float32)
        observations[:, 0] = np.linspace(0, 4 * truth, STEPS) + rng.normal(0, 0.2, STEPS)
        yield ScoredSegment(
            episode=f"episode-{number % episodes}",
            observations=observations,
            score=float(np.clip(truth + rng.normal(0, 0.15), 0, 1)),
            outcome=float(rng.random() < truth),
        )


if __name__ == "__main__":
    main()
