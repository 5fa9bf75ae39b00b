"""The arms of a YAML file, and what one run of an arm is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from variants import Variant, vary

from questloop.env.world import game_world
from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, StartState, beginnings, write_start_state
from questloop.game.state_file import SaveState
from questloop.pipeline import stages
from questloop.pipeline.context import Context, open_context
from questloop.planner.client import EmbeddedPlanner
from questloop.setting_types import AimsOf
from questloop.settings import Settings
from questloop.storage import keys
from questloop.training.evaluation import play_episodes
from questloop.training.player import load_player
from questloop.training.trainer import Trainer

POWER_ON = "power_on"
GOAL = "essence_1"
WALKED_FRAMES = 16
"""between two points of the walkthrough, about a step: each is in reach of the next"""
STEP_FRAMES = 4
BEGINNINGS = {POWER_ON: 1.0, BEGINNING: 3.0}
"""Weights of the two beginnings: an episode in four plays the title screen too, as evaluation does."""


@dataclass(frozen=True)
class Experiment:
    """A YAML file of arms."""

    steps: int
    epoch_steps: int
    seeds: list[int]
    evaluation: dict[str, int]
    arms: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """`common` is put under every arm."""
        document = yaml.safe_load(path.read_text())
        arms = {name: document["common"] | (arm or {}) for name, arm in document["arms"].items()}
        return cls(
            document["steps"], document["epoch_steps"], document["seeds"], document["evaluation"], arms
        )

    def order(self, arms: list[str] | None, seeds: list[int] | None) -> list[tuple[str, int]]:
        """Seed 0 of every arm first, then seed 1: what is cut off is cut off evenly."""
        return [(arm, seed) for seed in seeds or self.seeds for arm in arms or self.arms]


def run_arm(experiment: Experiment, arm: str, seed: int, workers: int, folder: Path) -> dict[str, Any]:
    """Train one run to its end, going on where the store in `folder` stopped, and evaluate it."""
    rom = Rom.load(None)
    profile = profile_for(rom)
    values = {key.lower(): value for key, value in experiment.arms[arm].items()}
    weights, walked = BEGINNINGS | values.pop("starts", {}), values.pop("walked", 0.0)
    variant = values.pop("variant", None)
    starts = folder / "starts"
    if not starts.exists():
        write_starts(rom, profile, starts, weights, walked)
    settings = Settings(
        **values,
        seed=seed,
        epoch_steps=experiment.epoch_steps,
        start_states=str(starts),
        store_url=str(folder / "store"),
        ray_workers=workers,
    )
    world = game_world(settings)
    if variant is not None:
        world = vary(Variant(variant), world, seed)
    exploration = settings.exploration
    judged = exploration.shaping_coef > 0 or exploration.awr_top_k > 0 or exploration.aims is AimsOf.JUDGES
    if not judged:
        world = replace(world, recording=None)
    epochs = []
    with open_context(settings) as context, Trainer(settings, context.store, world) as trainer:
        for epoch in range(-(-experiment.steps // experiment.epoch_steps)):
            epochs.append(_epoch(context, trainer, epoch, judged))
            print(arm, seed, epoch, _reached(epochs[-1]["training"]), flush=True)
        evaluation = evaluate(experiment, settings, context, rom, profile)
    return {
        "arm": arm,
        "seed": seed,
        "steps": experiment.steps,
        "settings": dict(experiment.arms[arm]),
        "epochs": epochs,
        **summary(epochs),
        "evaluation": evaluation,
    }


def write_starts(
    rom: Rom, profile: Profile, folder: Path, weights: dict[str, float], walked: float = 0.0
) -> None:
    """The two beginnings, and the states at milestones before the first essence, for the curriculum.

    `walked`: weight of the points of the walkthrough before the first essence, all together.
    """
    staged = folder.with_name(f"{folder.name}.{os.getpid()}")
    staged.mkdir(parents=True)
    emulator = Emulator(rom, profile.layout)
    write_start_state(str(staged), StartState(POWER_ON, emulator.power_on, weights[POWER_ON]))
    emulator.close()
    for item in beginnings(rom, profile, milestones=True):
        if item.name == GOAL:
            break
        write_start_state(str(staged), replace(item, weight=weights.get(item.name, 0.0)))
    if walked:
        states = list(along(rom, profile))
        for number, state in enumerate(states):
            write_start_state(str(staged), StartState(f"walk_{number:03}", state, walked / len(states)))
    staged.rename(folder)


def along(rom: Rom, profile: Profile) -> Iterator[SaveState]:
    """States along the walkthrough up to the goal, where the player has control."""
    script = resources.files("questloop.game") / "roms" / str(profile.walkthrough)
    emulator = Emulator(rom, profile.layout)
    row = np.zeros((1, profile.layout.size), np.uint8)
    since = 0
    for item in steps(parse_inputs(script.read_text("utf-8"), str(profile.walkthrough)), STEP_FRAMES):
        emulator.step(item.action, item.frames)
        emulator.read(row[0])
        since += item.frames
        if GOAL in profile.milestone_names(int(profile.detector(row)[0])):
            break
        if since >= WALKED_FRAMES and profile.decode(row).has_control[0]:
            since = 0
            yield emulator.save()
    emulator.close()


def _epoch(context: Context, trainer: Trainer, epoch: int, judged: bool) -> dict[str, Any]:
    training = stages.rollouts(context, epoch, trainer).info
    found: dict[str, Any] = {"training": {key: training[key] for key in _KEPT}}
    if judged:
        judges = stages.evaluate(context, epoch, announce=lambda line: None).info
        found["judges"] = judges
        found["reward_model"] = stages.reward_model(context, epoch).info
    return found


def _reached(training: dict[str, Any]) -> str:
    """Episodes of an epoch that reached each milestone, of those finished, and the pace."""
    counts = {name: count for name, count in training["milestones"].items() if count}
    return f"{training['steps_per_second']:.0f}/s {training['episodes_finished']} {json.dumps(counts)}"


_KEPT = (
    "step_end", "seconds", "steps_per_second", "episodes_finished", "return_mean", "return_per_1000_steps",
    "unique_rooms_per_episode", "milestones", "milestone_steps", "room_visits", "losses",
    "curiosity_mean", "shaping_mean", "shaping_weight", "shaping_reason", "archive_cells", "curriculum",
    "judged_aims",
)  # fmt: skip


def summary(epochs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the table shows of training."""
    first: dict[str, int] = {}
    for epoch in epochs:
        for name, step in epoch["training"]["milestone_steps"].items():
            first.setdefault(name, step)
    rooms = {room for epoch in epochs for room in epoch["training"]["room_visits"]}
    return {"milestone_steps": first, "unique_rooms": len(rooms), "seconds": _seconds(epochs)}


def _seconds(epochs: list[dict[str, Any]]) -> float:
    return sum(epoch["training"]["seconds"] for epoch in epochs)


def evaluate(
    experiment: Experiment, settings: Settings, context: Context, rom: Rom, profile: Profile
) -> dict[str, Any]:
    """Episodes from power-on by the last checkpoint: the policy alone, then with a planner."""
    last = -(-experiment.steps // experiment.epoch_steps) - 1
    steps = experiment.evaluation["frames"] // settings.game.frame_skip
    game = settings.game.model_copy(update={"episode_length": steps})
    emulator = Emulator(rom, profile.layout)
    start = StartState(POWER_ON, emulator.power_on)
    emulator.close()
    found = {}
    planned = settings.exploration.planner  # an agent that was trained with a planner plays with one
    planners: dict[str, EmbeddedPlanner | None] = {}
    if not planned:
        planners["planner_off"] = None
    if planned or experiment.evaluation.get("planner"):
        planners["planner_on"] = EmbeddedPlanner()
    for name, planner in planners.items():
        player = load_player(context.store, last, seed=settings.loop.seed)
        played = play_episodes(player, game, start, experiment.evaluation["episodes"], planner)
        found[name] = [asdict(episode) for episode in played]
    return found


def policy_of(folder: Path, experiment: Experiment) -> bytes:
    """The weights of a finished run."""
    last = -(-experiment.steps // experiment.epoch_steps) - 1
    return (folder / "store" / keys.checkpoint(last, "policy.safetensors")).read_bytes()
