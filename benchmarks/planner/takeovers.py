"""The embedded planner against a policy alone on Mossgrove, and the loop with and without it.

PYTHONPATH=src python benchmarks/planner/takeovers.py train --store /tmp/alone [--steps 300000]
PYTHONPATH=src python benchmarks/planner/takeovers.py rooms [--seeds 10] [--store /tmp/alone]
PYTHONPATH=src python benchmarks/planner/takeovers.py skips [--seeds 10]
PYTHONPATH=src python benchmarks/planner/takeovers.py loop [--steps 12288]
PYTHONPATH=src python benchmarks/planner/takeovers.py hints [--steps 24576]
PYTHONPATH=src python benchmarks/planner/takeovers.py language
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import mean

import numpy as np
from trials import Table, by_planner, by_policy, talks, trials

from questloop.episodes.mode import Mode
from questloop.game.actions import ACTION_COUNT, Action
from questloop.game.columns import Columns
from questloop.game.observation import OBSERVATION_SIZE, Encoder
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import StartState, write_start_state
from questloop.planner.client import EmbeddedPlanner, RemotePlanner
from questloop.planner.plan import Plan
from questloop.serving.local_llm import MODEL, LocalLLM
from questloop.settings import LLMSettings, Settings
from questloop.storage.store import open_store
from questloop.training.epoch_plan import EpochPlan, EpochReport
from questloop.training.player import Player, load_player
from questloop.training.trainer import Trainer

ALONE_FRAMES = 2_400
STEP_FRAMES = 4


class Chance:
    """Uniform actions."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, columns: Columns) -> int:
        return int(self.rng.integers(ACTION_COUNT))


class Trained:
    """A trained policy, its history beginning with the trial."""

    def __init__(self, player: Player) -> None:
        self.player, self.encoder = player, Encoder(1, PROFILE, STEP_FRAMES)
        self.action = np.array([Action.NOP], np.uint8)

    def __call__(self, columns: Columns) -> int:
        obs = np.zeros((1, OBSERVATION_SIZE), np.float32)
        self.encoder.encode(columns, self.action, obs)
        self.action = self.player.act(obs)
        return int(self.action[0])


def rooms(seeds: int, store: str | None) -> dict:
    """Solved trials and mean steps of those, by trial."""
    rom = Rom.load(None)
    table, planner, result = Table(rom, PROFILE), EmbeddedPlanner(), {}
    found = trials(rom, PROFILE)
    named = {trial.name for trial in found}
    for trial in [*found, *(talk for talk in talks(rom, PROFILE) if talk.name not in named)]:
        # A dialog plays the same with every seed; a policy does not.
        ways = {
            "planner": [by_planner(table, trial, planner, seed) for seed in range(seeds)],
            "chance": [by_policy(table, trial, Chance(seed), seed, ALONE_FRAMES) for seed in range(seeds)],
        }
        if store:
            ways["trained"] = [
                by_policy(
                    table, trial, Trained(load_player(open_store(store), None, seed)), seed, ALONE_FRAMES
                )
                for seed in range(seeds)
            ]
        result[trial.name] = {"mode": trial.mode} | {way: tally(verdicts) for way, verdicts in ways.items()}
        print(trial.name, json.dumps(result[trial.name]), flush=True)
    return result


def skips(seeds: int) -> dict:
    """Solved riddles and dialogs, and mean frames of those, by FRAME_SKIP and trial."""
    rom, planner, result = Rom.load(None), EmbeddedPlanner(), {}
    for frame_skip in (4, 8, 16):
        table, told = Table(rom, PROFILE, frame_skip), {}
        for trial in trials(rom, PROFILE):
            each = range(seeds if trial.mode is Mode.PUZZLE else 1)  # a dialog plays the same with every seed
            ways = {"planner": [by_planner(table, trial, planner, seed) for seed in each]}
            if trial.mode is Mode.PUZZLE:
                ways["chance"] = [by_policy(table, trial, Chance(seed), seed, ALONE_FRAMES) for seed in each]
            told[trial.name] = {way: tally(verdicts, "frames", 1) for way, verdicts in ways.items()}
            print(frame_skip, trial.name, json.dumps(told[trial.name]), flush=True)
        table.close()
        result[frame_skip] = {"riddles": {way: total(told, way) for way in ("planner", "chance")}}
        result[frame_skip]["trials"] = told
    return result


def total(told: dict, way: str) -> str:
    rows = [row[way] for name, row in told.items() if name.startswith("room")]
    return f"{sum(row['solved'] for row in rows)} of {sum(row['of'] for row in rows)}"


def tally(verdicts: list, unit: str = "steps", frames: int = STEP_FRAMES) -> dict:
    solved = [verdict.frames / frames for verdict in verdicts if verdict.solved]
    return {"solved": len(solved), "of": len(verdicts), unit: round(mean(solved), 1) if solved else None}


def loop(steps: int, seeds: int) -> dict:
    """Milestones that an epoch's episodes reached from the entrances of the puzzle rooms."""
    return {
        f"seed {seed}, planner {'on' if planner else 'off'}": summary(
            epoch(seed, steps, puzzle_rooms=True, planner=planner)
        )
        for seed in range(seeds)
        for planner in (True, False)
    }


def hints(steps: int, seeds: int) -> dict:
    """The same from the game's beginning, with and without the embedded planner's hints."""
    return {
        f"seed {seed}, hint interval {interval}": summary(epoch(seed, steps, hint_interval=interval))
        for seed in range(seeds)
        for interval in (200, 0)
    }


def language() -> dict:
    """SmolLM2 (135M) as the planner, behind the local server, its replies held to the schema of a plan."""
    result = {}
    rom = Rom.load(None)
    table = Table(rom, PROFILE)
    with LocalLLM(slots=1) as llm:
        names = {f"llm_model_{role}": MODEL for role in ("state", "puzzle", "vision")}
        settings = LLMSettings(llm_endpoint=llm.url, llm_images=False, llm_timeout_s=600, **names)
        planner = Noting(settings)
        for trial in trials(rom, PROFILE):
            planner.plans.clear()
            began = time.perf_counter()
            verdict = by_planner(table, trial, planner, 0)
            seconds = (time.perf_counter() - began) / max(1, verdict.plans)
            result[trial.name] = asdict(verdict) | {
                "seconds_a_plan": round(seconds, 1),
                "first_plan": planner.plans[0].model_dump() if planner.plans else None,
            }
            print(trial.name, json.dumps(result[trial.name]), flush=True)
        planner.close()
    return result


class Noting(RemotePlanner):
    """Keeps the plans."""

    def __init__(self, settings: LLMSettings) -> None:
        super().__init__(settings)
        self.plans: list[Plan] = []

    def ask(self, mode, document, picture=None):
        future = super().ask(mode, document, picture)
        future.add_done_callback(lambda done: done.exception() or self.plans.append(done.result()))
        return future


def train(steps: int, store: str) -> dict:
    """The policy alone, from the entrances of the puzzle rooms."""
    return summary(epoch(0, steps, puzzle_rooms=True, where=store, batch_size=4096, minibatch_size=512))


def epoch(
    seed: int, steps: int, puzzle_rooms: bool = False, where: str | None = None, **values
) -> EpochReport:
    with tempfile.TemporaryDirectory() as folder:
        if puzzle_rooms:
            values["start_states"] = f"{folder}/starts"
            Path(values["start_states"]).mkdir()
            for trial in trials(Rom.load(None), PROFILE):
                if trial.mode is Mode.PUZZLE:
                    name = trial.name.replace(" ", "_").replace(":", "_")
                    write_start_state(values["start_states"], StartState(name, trial.state))
        usual = {"episode_length": 1000, "ray_workers": 1, "envs_per_worker": 4}
        settings = Settings(**(usual | {"batch_size": 1024, "minibatch_size": 256} | values))
        store = open_store(where or f"{folder}/store")
        with Trainer(settings, store) as trainer:
            return trainer.run_epoch(EpochPlan("r", 0, 1, seed, step_start=0, step_end=steps))


def summary(report: EpochReport) -> dict:
    result = {
        "milestones": {key: count for key, count in report.milestones.items() if count},
        "episodes": report.episodes_finished,
        "rooms_per_episode": round(report.unique_rooms_per_episode, 2),
        "return_per_1000_steps": round(report.return_per_1000_steps, 2),
        "steps_per_second": round(report.steps_per_second),
        "planner": report.planner,
        "hints": report.hints,
    }
    print(json.dumps(result), flush=True)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "rooms", "skips", "loop", "hints", "language"])
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--store")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    match options.what:
        case "train":
            measured = train(options.steps or 300_000, options.store)
        case "rooms":
            measured = rooms(options.seeds or 10, options.store)
        case "skips":
            measured = skips(options.seeds or 10)
        case "loop":
            measured = loop(options.steps or 12_288, options.seeds or 2)
        case "hints":
            measured = hints(options.steps or 24_576, options.seeds or 2)
        case "language":
            measured = language()
    if options.out:
        options.out.write_text(json.dumps(measured, indent=2) + "\n")
