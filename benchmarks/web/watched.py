"""What a watcher costs a run: training with and without a dashboard whose event stream is read.

PYTHONPATH=src python benchmarks/web/watched.py [--rounds 3] [--steps 24576]

Rounds are interleaved and begin in turn with either, so that a machine that slows down or gets busy falls on
both. The dashboard is a process of its own, as `questloop dashboard` starts it; one client keeps `/events`
open and asks for the overview every five seconds, as a page does. Each run is one epoch of the same seed in a
new store. The pairs' ratios are printed with their spread: where that is larger than what is looked for, the
machine was too busy to tell.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import httpx

from questloop.pipeline import stages
from questloop.pipeline.context import open_context
from questloop.pipeline.display import Display
from questloop.settings import load
from questloop.storage.keys import Stage
from questloop.training.trainer import Trainer

LOOK_EVERY_S = 5.0


@contextmanager
def watcher(store: str) -> Iterator[None]:
    """A dashboard on the store, and a client that listens to its events and looks at its pages."""
    command = [sys.executable, "-m", "questloop", "dashboard", store, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stderr is not None
    url = ""
    for line in process.stderr:
        if found := re.search(r"http://\S+", line):
            url = found[0]
            break
    heard = threading.Event()
    over = threading.Event()

    def listen() -> None:
        with httpx.stream("GET", f"{url}/events", timeout=None) as events:
            for _ in events.iter_lines():
                heard.set()
                if over.is_set():
                    return

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            httpx.get(url, timeout=60)

    threads = [threading.Thread(target=each, daemon=True) for each in (listen, look)]
    for thread in threads:
        thread.start()
    if not heard.wait(120):
        raise RuntimeError(f"the dashboard at {url} sends no events")
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
        process.terminate()
        process.wait()


def rate(steps: int, watched: bool) -> float:
    """Steps a second of an epoch, played as the pipeline plays it, `progress.json` included."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load(flags={"store_url": folder, "epoch_steps": steps})
        with (
            watcher(folder) if watched else nullcontext(),
            open_context(settings) as context,
            Trainer(settings, context.store) as trainer,
            Display(context).stage(0, Stage.ROLLOUTS) as bar,
        ):
            return float(stages.rollouts(context, 0, trainer, bar.training).info["steps_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24_576)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(chosen.rounds):
        for watched in (False, True) if number % 2 == 0 else (True, False):
            load = os.getloadavg()[0]
            rates[watched].append(rate(chosen.steps, watched))
            name = "watched" if watched else "alone  "
            print(
                f"round {number} {name} {rates[watched][-1]:8.1f} steps/s, load before {load:.1f}", flush=True
            )
            time.sleep(1)
    ratios = [with_ / without for without, with_ in zip(rates[False], rates[True], strict=True)]
    cost = [100 * (1 - ratio) for ratio in ratios]
    document = {
        "steps": chosen.steps,
        "alone_steps_per_s": rates[False],
        "watched_steps_per_s": rates[True],
        "cost_percent": cost,
        "cost_percent_median": statistics.median(cost),
    }
    if chosen.output:
        chosen.output.write_text(json.dumps(document, indent=1) + "\n")
    print(
        f"a watcher costs: median {statistics.median(cost):.1f}%, pairs {min(cost):.1f}% to {max(cost):.1f}%"
    )


if __name__ == "__main__":
    main()
