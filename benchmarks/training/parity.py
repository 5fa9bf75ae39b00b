"""Does the fast path learn what stock RLlib learns? Same rewards, network, batch, epochs and learning rate.

    python benchmarks/training/parity.py --seeds 0 1 2 --updates 38

Trains both on Mossgrove's events and coverage alone, in episodes of 600 steps, and writes the mean return of
the episodes that end in the last updates, about two a slot, to `benchmarks/training/parity.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import mean, stdev

EPISODE_STEPS = 600
LAST_UPDATES = 19  # of 64 steps a slot: two episodes of each end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=38, help="of 4,096 steps")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("parity.json"))
    arguments = parser.parse_args()
    os.environ["EPISODE_LENGTH"] = str(EPISODE_STEPS)

    returns: dict[str, list[float]] = {"questloop": [], "rllib": []}
    for seed in arguments.seeds:
        for name, train in (("questloop", ours), ("rllib", rllib)):
            returns[name].append(train(seed, arguments.updates))
            print(f"seed {seed}: {name} {returns[name][-1]:.4f}", flush=True)
    seeds = " ".join(map(str, arguments.seeds))
    document = {
        "command": f"python benchmarks/training/parity.py --seeds {seeds} --updates {arguments.updates}",
        "steps": arguments.updates * 4096,
        "seeds": arguments.seeds,
        "return_of_last_episodes": returns,
        "mean": {name: mean(values) for name, values in returns.items()},
        "deviation": {name: stdev(values) for name, values in returns.items() if len(values) > 1},
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


def ours(seed: int, updates: int) -> float:
    """Mean return of the episodes that end in the last updates."""
    from questloop.bench.game import bench_starts
    from questloop.bench.ours import Ours, Parts

    with Ours(bench_starts(False), Parts(rnd=False, shaping=False), seed) as trainer:
        trainer.run(updates - LAST_UPDATES - 1)  # one was trained on at the start
        trainer.run(LAST_UPDATES)
        found = trainer.reports[-1].return_mean
    assert found is not None
    return found


def rllib(seed: int, updates: int) -> float:
    """The same of RLlib, which tells a mean in the updates where episodes ended."""
    from questloop.bench.game import SLOTS, bench_starts
    from questloop.bench.peers import StockRLlib
    from questloop.machine import machine_cores

    with StockRLlib(bench_starts(False), machine_cores(), SLOTS, seed=seed) as trainer:
        trainer.run(updates - LAST_UPDATES)
        total, episodes = 0.0, 0
        for _ in range(LAST_UPDATES):
            trainer.run(1)
            told = trainer.latest["env_runners"]
            if told["num_episodes"]:
                total += float(told["episode_return_mean"]) * told["num_episodes"]
                episodes += int(told["num_episodes"])
        return total / episodes


if __name__ == "__main__":
    main()
