"""Runs the arms of `arms.yaml` side by side, a process a run, and writes one JSON a finished run.

    PYTHONPATH=src python benchmarks/learning/run.py --jobs 2 --out runs/learning
    PYTHONPATH=src python benchmarks/learning/run.py --jobs 28 --minutes 9 --arms events,all --seeds 0,1

The same command goes on where it stopped: finished runs are skipped, the others go on from their last epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    args = _arguments()
    sys.path.insert(0, str(HERE))
    from experiment import Experiment, policy_of, run_arm

    experiment = Experiment.read(args.experiment)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.one:
        arm, seed = args.one.rsplit(":", 1)
        folder = args.work / f"{arm}-{seed}"
        result = run_arm(experiment, arm, int(seed), args.workers, folder)
        weights = args.out / f"{arm}-{seed}.safetensors"
        weights.write_bytes(policy_of(folder, experiment))
        _write(args.out / f"{arm}-{seed}.json", json.dumps(result, allow_nan=False))
        return
    arms = args.arms.split(",") if args.arms else None
    seeds = [int(seed) for seed in args.seeds.split(",")] if args.seeds else None
    todo = [
        (arm, seed)
        for arm, seed in experiment.order(arms, seeds)
        if not (args.out / f"{arm}-{seed}.json").exists()
    ]
    print(f"{len(todo)} runs to do, {args.jobs} side by side, {args.minutes} minutes", flush=True)
    left = run_all(todo, args)
    print(f"{left} runs are not finished" if left else "all runs are finished", flush=True)


def run_all(todo: list[tuple[str, int]], args: argparse.Namespace) -> int:
    """Run them, at most `--jobs` at once, until they are done or time is up; the number not finished."""
    deadline = time.monotonic() + args.minutes * 60
    waiting, running, failed = list(todo), {}, 0
    try:
        while (waiting or running) and time.monotonic() < deadline:
            while waiting and len(running) < args.jobs:
                run = waiting.pop(0)
                running[run] = _start(run, args)
            for run, process in list(running.items()):
                if process.poll() is not None:
                    del running[run]
                    failed += process.returncode != 0
                    print(f"{run[0]} seed {run[1]}: {'failed' if process.returncode else 'done'}", flush=True)
            time.sleep(0.2)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGKILL)  # an epoch that was cut off is played again
            process.wait()
    return len(waiting) + len(running) + failed


def _start(run: tuple[str, int], args: argparse.Namespace) -> subprocess.Popen[bytes]:
    arm, seed = run
    command = [sys.executable, __file__, "--one", f"{arm}:{seed}", "--workers", str(args.workers)]
    command += ["--experiment", str(args.experiment), "--out", str(args.out), "--work", str(args.work)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    log = (args.out / f"{arm}-{seed}.log").open("ab")
    return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)


def _write(path: Path, text: str) -> None:
    staged = path.with_suffix(".part")
    staged.write_text(text)
    staged.rename(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--experiment", type=Path, default=HERE / "arms.yaml")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"), help="results, one JSON a run")
    parser.add_argument("--work", type=Path, default=Path("runs/learning-work"), help="the runs' stores")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--workers", type=int, default=0, help="RAY_WORKERS of a run; 0: one process")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="stop after so long")
    parser.add_argument("--arms", help="comma-separated; unset: all")
    parser.add_argument("--seeds", help="comma-separated; unset: those of the experiment")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
