"""Step 1 without a store: real Mossgrove, played from all over the game by players of known, mixed skill.

    python benchmarks/judges/play.py --episodes 240 --out build/judges

An episode starts at a random point of the game's walkthrough. In half of the episodes the player follows
the walkthrough for a random while and then wanders, in the others it wanders from the start: random
directions held for a random while, some button presses. Segments, summaries, outcomes and observations are
made by the same code as in the loop. Writes what `collect.py` writes, and `states.jsonl`: states of the play,
scored by the rule-based judge of states, who reads the guide.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from questloop.episodes.outcomes import milestone_follows
from questloop.episodes.png import encode_png
from questloop.episodes.segment import SEGMENT_FRAMES as SEGMENT_STEPS
from questloop.episodes.spans import window_steps
from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.guide import Guide
from questloop.game.input_script import Input, parse_inputs, steps
from questloop.game.observation import Encoder
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.state import decode_all
from questloop.game.state_file import SaveState
from questloop.grpo.judge_data import JudgedState, OutcomeSegment
from questloop.judges import quest
from questloop.judges.compress import compress
from questloop.judges.states import describe

TOKEN_BUDGET = 350
STEP_FRAMES = 4
CHECKPOINT_STEPS = 40
LONGEST_FOLLOWED = 1500
SEGMENTS = 12
"""of an episode, at most"""
PICTURE_STEPS = 10
STATE_STEPS = 150
"""a segment gives a state every so many steps"""
# UP DOWN LEFT RIGHT A B START NOP
WANDERING = np.array([0.19, 0.19, 0.19, 0.19, 0.13, 0.07, 0.002, 0.038])
HELD_STEPS = 6.0


@dataclass(frozen=True)
class PlayedSegment:
    """A segment as judges want it, what followed, and the mean and last of its observations f32[256]."""

    segment_id: str
    episode_id: str
    states: list[dict[str, Any]]
    pictures: dict[int, bytes]
    outcome: bool
    feature: np.ndarray

    def png(self, step: int) -> bytes | None:
        return self.pictures.get(step)


@dataclass(frozen=True)
class Place:
    """A point of the walkthrough: its state, the index of the next input, the milestones reached so far."""

    state: SaveState
    next_input: int
    reached: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=int, default=240)
    parser.add_argument("--segments", type=int, default=SEGMENTS, help="of an episode, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build/judges"))
    arguments = parser.parse_args()
    counts = range(arguments.processes)
    shares = [(arguments, range(first, arguments.episodes, arguments.processes)) for first in counts]
    lines, features, states = [], [], {}
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        played = [one for share in pool.starmap(play_share, shares) for one in share]
    played.sort(key=lambda one: one[0].segment_id)  # the same whatever the number of processes
    for segment, feature, seen in played:
        lines.append(json.dumps(dataclasses.asdict(segment)) + "\n")
        features.append(feature)
        for state in seen:
            states.setdefault(state.cell_id, json.dumps(dataclasses.asdict(state)) + "\n")
    followed = sum(json.loads(line)["outcome"] for line in lines)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "segments.jsonl").write_text("".join(lines), "utf-8")
    (arguments.out / "states.jsonl").write_text("".join(states.values()), "utf-8")
    np.savez_compressed(arguments.out / "observations.npz", features=np.array(features, dtype=np.float32))
    print(f"{arguments.episodes} episodes, {len(lines)} segments, {followed} followed by a milestone")
    print(f"{len(states)} states")


def play_share(
    arguments: argparse.Namespace, numbers: range
) -> list[tuple[OutcomeSegment, np.ndarray, list[JudgedState]]]:
    """Play the episodes of one process."""
    guide = profile_for(Rom.load(None)).guide
    assert guide is not None
    return [
        (
            OutcomeSegment(
                segment.segment_id,
                segment.episode_id,
                compress(segment.states, TOKEN_BUDGET).text,
                segment.outcome,
            ),
            segment.feature,
            [scored(guide, segment.episode_id, line["state"]) for line in segment.states[::STATE_STEPS]],
        )
        for segment in segments(arguments.seed, numbers, arguments.segments)
    ]


def scored(guide: Guide, episode_id: str, state: dict[str, Any]) -> JudgedState:
    """What the rule-based judge of states says of a state; its id is its text's."""
    text = describe(state)
    score = quest.judge(guide.text, text)["overall"]
    return JudgedState(hashlib.sha256(text.encode()).hexdigest()[:16], episode_id, text, float(score or 0))


def segments(
    seed: int, numbers: range, most_segments: int = SEGMENTS, pictured: bool = False
) -> Iterator[PlayedSegment]:
    """Play episodes of a seed; their segments whose outcome is known, with pictures where asked for."""
    rom = Rom.load(None)
    profile = profile_for(rom)
    script = resources.files("questloop.game") / "roms" / profile.walkthrough
    inputs = list(steps(parse_inputs(script.read_text("utf-8"), profile.walkthrough), STEP_FRAMES))
    emulator = Emulator(rom, profile.layout)
    places = survey(emulator, profile, inputs)
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        name = f"play-s{seed}-{number:04d}"
        yield from episode(emulator, profile, inputs, places, rng, name, most_segments, pictured)


def survey(emulator: Emulator, profile: Profile, inputs: list[Input]) -> list[Place]:
    """Play the walkthrough once and keep a state every so many inputs where the player has control."""
    row = np.zeros((1, profile.layout.size), np.uint8)
    places: list[Place] = []
    reached, since = 0, CHECKPOINT_STEPS
    for index, item in enumerate(inputs):
        emulator.step(item.action, item.frames)
        emulator.read(row[0])
        columns = profile.columns(row)
        reached |= int(columns.milestones[0])
        since += 1
        if since >= CHECKPOINT_STEPS and columns.has_control[0]:
            places.append(Place(emulator.save(), index + 1, reached))
            since = 0
    return places


def episode(
    emulator: Emulator,
    profile: Profile,
    inputs: list[Input],
    places: list[Place],
    rng: np.random.Generator,
    name: str,
    most_segments: int,
    pictured: bool,
) -> Iterator[PlayedSegment]:
    """Play one episode; its segments whose outcome is known."""
    place = places[int(rng.integers(len(places)))]
    followed = int(rng.integers(1, LONGEST_FOLLOWED)) if rng.random() < 0.5 else 0
    most_steps = most_segments * SEGMENT_STEPS
    pictures: dict[int, bytes] | None = {} if pictured else None
    taps, observations, milestones = play(
        emulator, profile, inputs, place, followed, most_steps, rng, pictures
    )
    length = len(taps)
    firsts = range(0, length, SEGMENT_STEPS)
    last_steps = {f"{name}/{first:05d}": min(first + SEGMENT_STEPS, length) - 1 for first in firsts}
    ended = length < most_steps
    for segment_id, last in last_steps.items():
        known = milestone_follows(last, milestones.values(), length - 1, ended, window_steps(SEGMENT_STEPS))
        if known is None:
            continue
        first = int(segment_id.rpartition("/")[2])
        rows = slice(first, last + 1)
        states = [
            {"step": step, "mode": "policy", "state": state.to_json(), "png": step in (pictures or ())}
            for step, state in enumerate(decode_all(taps[rows], profile), first)
        ]
        feature = np.concatenate([observations[rows].mean(axis=0), observations[last]])
        yield PlayedSegment(segment_id, name, states, pictures or {}, known, feature)


def play(
    emulator: Emulator,
    profile: Profile,
    inputs: list[Input],
    place: Place,
    followed: int,
    most_steps: int,
    rng: np.random.Generator,
    pictures: dict[int, bytes] | None,
) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Taps u8[L, K] and observations f32[L, 128] of every step, and the steps of new milestones.

    Into `pictures` go PNGs of every tenth step and of those after a change of room, text or health.
    """
    emulator.load(place.state)
    encoder = Encoder(1, profile, STEP_FRAMES)
    reached = place.reached
    milestones: dict[str, int] = {}
    taps = np.zeros((most_steps, profile.layout.size), np.uint8)
    observations = np.zeros((most_steps, 128), np.float32)
    action, held = Action.NOP, 0
    seen: tuple[int, ...] = ()
    changed = False
    for step in range(most_steps):
        index = place.next_input + step
        if step < followed and index < len(inputs):
            action, frames, held = inputs[index].action, inputs[index].frames, 0
        else:
            if held == 0:
                action = Action(int(rng.choice(len(WANDERING), p=WANDERING)))
                held = int(rng.geometric(1 / HELD_STEPS)) if action < Action.A else 1
            frames, held = STEP_FRAMES, held - 1
        render = pictures is not None and (changed or step % PICTURE_STEPS == 0)
        emulator.step(action, frames, render)
        if pictures is not None and render:
            pictures[step] = encode_png(emulator.screen())
        emulator.read(taps[step])
        columns = profile.columns(taps[step : step + 1])
        now = tuple(int(column[0]) for column in (columns.place, columns.text_index, columns.health))
        changed, seen = bool(seen) and now != seen, now
        encoder.encode(columns, np.array([action], np.uint8), observations[step : step + 1])
        holding = int(columns.milestones[0])
        for key in profile.milestone_names(holding & ~reached):
            milestones[key] = step
        reached |= holding
        if columns.game_over[0] or profile.goal in milestones:
            return taps[: step + 1], observations[: step + 1], milestones
    return taps, observations, milestones


if __name__ == "__main__":
    main()
