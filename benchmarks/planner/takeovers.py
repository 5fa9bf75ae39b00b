"""The embedded planner against chance on Mossgrove, and the loop with and without it.

PYTHONPATH=src python benchmarks/planner/takeovers.py rooms [--seeds 10]
PYTHONPATH=src python benchmarks/planner/takeovers.py loop [--steps 12288]
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean

from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import StartState, write_start_state
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.modes import Mode
from questloop.planner.trials import Table, by_chance, by_planner, trials
from questloop.settings import Settings
from questloop.storage.store import open_store
from questloop.training.epoch import train_epoch
from questloop.training.plan import EpochPlan

CHANCE_STEPS = 600


def rooms(seeds: int) -> dict:
    """Solved trials and mean steps of those, by trial."""
    rom = Rom.load(None)
    table, planner, result = Table(rom, PROFILE), EmbeddedPlanner(), {}
    for trial in trials(rom, PROFILE):
        # A dialog plays the same with every seed; chance does not.
        planned = [by_planner(table, trial, planner, seed) for seed in range(seeds)]
        chance = [by_chance(table, trial, seed, CHANCE_STEPS) for seed in range(seeds)]
        result[trial.name] = {"mode": trial.mode, "planner": tally(planned), "chance": tally(chance)}
        print(trial.name, json.dumps(result[trial.name]), flush=True)
    return result


def tally(verdicts: list) -> dict:
    solved = [verdict.steps for verdict in verdicts if verdict.solved]
    return {"solved": len(solved), "of": len(verdicts), "steps": round(mean(solved), 1) if solved else None}


def loop(steps: int, seeds: int) -> dict:
    """Milestones that an epoch's episodes reached from the entrances of the puzzle rooms."""
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        starts = Path(folder) / "starts"
        starts.mkdir()
        for trial in trials(Rom.load(None), PROFILE):
            if trial.mode is Mode.PUZZLE:
                name = trial.name.replace(" ", "_").replace(":", "_")
                write_start_state(str(starts), StartState(name, trial.state))
        for seed in range(seeds):
            for planner in (True, False):
                settings = Settings(
                    start_states=str(starts), episode_length=1000, planner=planner, ray_workers=1,
                    envs_per_worker=4, batch_size=1024, minibatch_size=256,
                )  # fmt: skip
                store = open_store(f"{folder}/store_{seed}_{planner}")
                plan = EpochPlan(run="r", epoch=0, fence=1, seed=seed, step_start=0, step_end=steps)
                report = train_epoch(settings, store, plan)
                name = f"seed {seed}, planner {'on' if planner else 'off'}"
                result[name] = {
                    "milestones": {key: count for key, count in report.milestones.items() if count},
                    "episodes": report.episodes_finished,
                    "return_per_1000_steps": round(report.return_per_1000_steps, 2),
                    "steps_per_second": round(report.steps_per_second),
                    "planner": report.planner,
                }
                print(name, json.dumps(result[name]), flush=True)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["rooms", "loop"])
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12_288)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.what == "rooms":
        measured = rooms(options.seeds or 10)
    else:
        measured = loop(options.steps, options.seeds or 2)
    if options.out:
        options.out.write_text(json.dumps(measured, indent=2) + "\n")
