"""Measure the rates that docs/reference/sizing.md is computed from, and write benchmarks/sizing/rates.json.

python benchmarks/sizing/measure.py [--steps 40960]; then python scripts/write_sizing_reference.py
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from questloop.bench.game import bench_env, bench_starts, emulator_mb
from questloop.judges.rubric import MAX_REPLY_TOKENS
from questloop.pipeline import stages
from questloop.pipeline.context import open_context
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.training.trainer import Trainer

RATES = Path(__file__).parent / "rates.json"
SLOTS = 32
RUNNERS = 2


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40_960, help="steps of each of two epochs")
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        rates = {**environment_rates(), **epoch_rates(Path(folder) / "store", steps)}
    document = {
        "command": f"python benchmarks/sizing/measure.py --steps {steps}",
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1),
        },
        "rates": {name: round(value, 3) for name, value in rates.items()},
    }
    RATES.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def environment_rates(vector_steps: int = 400, rounds: int = 5) -> dict[str, float]:
    """Step, observation and reward of one runner by CPU time, so that a busy machine shows the same."""
    starts = bench_starts(busy=False)
    an_emulator_mb = emulator_mb(starts, frames=2000)[1]  # first, while no memory is free to be used again
    env = bench_env(SLOTS, starts)
    obs = np.zeros((SLOTS, *env.observation_shape), np.float32)
    reward, boundary = np.zeros(SLOTS, np.float32), np.zeros(SLOTS, np.uint8)
    env.reset(obs)
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(rounds):
        actions = rng.integers(0, 8, (vector_steps, SLOTS), dtype=np.uint8)
        began = time.process_time()
        for row in actions:
            env.step(row, obs, reward, boundary)
        rates.append(vector_steps * SLOTS / (time.process_time() - began))
    env.close()
    return {"env_steps_per_core_s": float(np.median(rates)), "emulator_mb": an_emulator_mb}


def epoch_rates(store: Path, steps: int) -> dict[str, float]:
    """The second of two epochs of the bundled game, exported whole, and a judge pass over it.

    What this process (learner, batches, export) spends a step is CPU time: a busy machine shows the same.
    """
    settings = {
        "STORE_URL": str(store),
        "EPOCH_STEPS": str(steps),
        "EPISODE_LENGTH": "1800",
        "EPOCH": "1",
        "RAY_WORKERS": str(RUNNERS),
        "ENVS_PER_WORKER": str(SLOTS // RUNNERS),
        "EXPORT_SEGMENTS_PER_EPOCH": "all",
        "JUDGE_BUDGET": "40",
        "JUDGE_VOTES": "1",
    }
    loaded = load(None, {name.lower(): value for name, value in settings.items()})
    with open_context(loaded) as context, Trainer(loaded, context.store) as trainer:
        stages.rollouts(context, 0, trainer)
        began = time.process_time()
        trained: dict[str, Any] = stages.rollouts(context, 1, trainer).info
        driver_s = time.process_time() - began
    judged = command(settings, "evaluate", "--json")
    prompt = re.search(r"about (\d+) prompt tokens", judged.stdout + judged.stderr)
    assert prompt is not None, judged.stderr
    entries = [e for e in open_store(str(store)).list(f"{keys.EPISODES}/") if "/scores/" not in e.key]
    segments = sum(entry.key.endswith("/manifest.json") for entry in entries)
    return {
        "driver_us_per_step": 1e6 * driver_s / steps,
        "loop_steps_per_s": trained["steps_per_second"],
        "loop_runners": RUNNERS,
        "segment_mb": sum(entry.size for entry in entries) / segments / 1e6,
        "objects_per_segment": len(entries) / segments,
        "prompt_tokens_per_vote": float(prompt.group(1)),
        "reply_tokens_most": MAX_REPLY_TOKENS,
    }


def command(settings: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """`questloop WORDS` under `settings`."""
    done: Any = subprocess.run(
        [sys.executable, "-m", "questloop", *words],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done


if __name__ == "__main__":
    main()
