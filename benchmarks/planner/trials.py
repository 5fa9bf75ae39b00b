"""Dialogs and puzzle rooms to try a planner on, taken from the walkthrough that a game ships."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources

import numpy as np

from questloop.episodes.mode import Mode
from questloop.game.actions import Action
from questloop.game.batch import PART_FRAMES, GameBatch
from questloop.game.columns import Columns
from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.state_file import SaveState
from questloop.planner.client import Planner
from questloop.planner.executor import Executor
from questloop.planner.modes import ModeRules
from questloop.planner.plan import parse_plan
from questloop.planner.room import Place
from questloop.planner.takeover import SOLVED, Takeovers, scene_of
from questloop.planner.view import Scene, is_dialog_state, puzzle_of, view_of

MOST_FRAMES = 16_000
"""of a trial"""

_THINKING_S = 0.01
_MOST_DELAY = 160  # frames for which a seed lets the game run before the trial begins


@dataclass(frozen=True)
class Trial:
    """A moment at which a dialog opened, or at which the hero came into a puzzle room."""

    name: str
    mode: Mode
    state: SaveState


@dataclass(frozen=True)
class Verdict:
    """How a trial went; `outcome` is empty where there was no takeover."""

    solved: bool
    frames: int
    outcome: str = ""
    plans: int = 0
    invalid: int = 0  # of the plans


def trials(rom: Rom, profile: Profile) -> list[Trial]:
    """Every dialog of the walkthrough by its text, and every puzzle room at its first entry."""
    found: dict[str, Trial] = {}
    talking = False
    for emulator, columns in _walkthrough(rom, profile):
        place = int(columns.group[0]), int(columns.room[0])
        begins = bool(columns.text_active[0]) and not talking
        talking = bool(columns.text_active[0])
        if begins:
            name, mode = f"text {int(columns.text_index[0]):02x}", Mode.DIALOG
        elif place in profile.terrain.puzzles and columns.has_control[0]:
            name, mode = f"room {place[0]}:{place[1]:02x}", Mode.PUZZLE
        else:
            continue
        if name not in found:
            found[name] = Trial(name, mode, emulator.save())
    return list(found.values())


def talks(rom: Rom, profile: Profile) -> list[Trial]:
    """Every dialog, by its text, that a person or a sign begins whom the hero walks up to from where the
    walkthrough enters a room."""
    table = Table(rom, profile)
    found: dict[str, Trial] = {}
    room = -1
    for emulator, columns in _walkthrough(rom, profile):
        if columns.place[0] == room or not columns.has_control[0] or columns.transition[0]:
            continue
        room = int(columns.place[0])
        entry = Trial(f"entry {room:04x}", Mode.DIALOG, emulator.save())
        table.set_up(entry, 0)
        view = view_of(table.scene, profile)
        for place in sorted(view.people | view.signs):
            table.set_up(entry, 0)
            text = _talk_to(table, place)
            if text is not None:
                name = f"text {text:02x}"
                found.setdefault(name, Trial(name, Mode.DIALOG, table.batch.save(0)))
    table.close()
    return list(found.values())


class Table:
    """One game to play trials on, in steps of `frame_skip` frames; a `takeover.Game`."""

    num_slots = 1

    def __init__(self, rom: Rom, profile: Profile, frame_skip: int = PART_FRAMES) -> None:
        self.profile, self.frame_skip = profile, frame_skip
        self.batch = GameBatch(rom, profile.layout, 1, frame_skip)
        self.columns = profile.columns(self.batch.taps)

    def set_up(self, trial: Trial, seed: int) -> None:
        """Begin a trial; the seed lets a puzzle room run on for a while, the hero standing still."""
        self.batch.reset(0, trial.state)
        self.columns = self.profile.columns(self.batch.taps)
        if trial.mode is Mode.PUZZLE:
            for _ in range(int(np.random.default_rng(seed).integers(_MOST_DELAY // PART_FRAMES))):
                self.batch.emulators[0].step(Action.NOP, PART_FRAMES)
            self.batch.emulators[0].read(self.batch.taps[0])
            self.columns = self.profile.columns(self.batch.taps)

    def step(self, action: int) -> None:
        """One step."""
        self.columns = self.profile.columns(self.batch.step(np.array([action], np.uint8)))

    @property
    def scene(self) -> Scene:
        """What the game shows."""
        return scene_of(self, 0)

    def close(self) -> None:
        self.batch.close()


def _walkthrough(rom: Rom, profile: Profile) -> Iterator[tuple[Emulator, Columns]]:
    """The game and what it shows after every step of the walkthrough."""
    script = resources.files("questloop.game") / "roms" / profile.walkthrough
    emulator = Emulator(rom, profile.layout)
    row = np.zeros((1, profile.layout.size), np.uint8)
    for item in steps(parse_inputs(script.read_text("utf-8"), profile.walkthrough), PART_FRAMES):
        emulator.step(item.action, item.frames)
        emulator.read(row[0])
        yield emulator, profile.columns(row)
    emulator.close()


def _talk_to(table: Table, place: Place) -> int | None:
    """The text that whoever stands at `place` begins, as it opens; None where the hero does not get there."""
    plan = parse_plan({"macros": [{"do": "TALK", "row": place[0], "column": place[1]}]})
    playing = Executor(plan, table.scene, table.profile, table.frame_skip).run()
    try:
        action = next(playing)
        while not is_dialog_state(table.scene.state):
            table.step(action)
            action = playing.send(table.scene)
    except StopIteration:
        return None
    return table.scene.state.text_index


def by_planner(
    table: Table, trial: Trial, planner: Planner, seed: int, most_frames: int = MOST_FRAMES
) -> Verdict:
    """Let the mode switch and the planner play; nobody presses anything otherwise."""
    table.set_up(trial, seed)
    takeovers = Takeovers(table, planner, table.frame_skip, ModeRules(cooldown_frames=most_frames))
    action, mask = np.zeros(1, np.uint8), np.ones(1, np.bool_)
    for frames in range(0, most_frames, table.frame_skip):
        action[0], mask[0] = Action.NOP, True
        takeovers.act(action, mask)
        while table.batch.paused:  # a language model thinks
            time.sleep(_THINKING_S)
            takeovers.act(action, mask)
        report = takeovers.latest
        if report.outcomes:
            outcome = next(iter(report.outcomes)).partition(" ")[2]
            return Verdict(outcome == SOLVED, frames, outcome, report.plans, report.invalid)
        table.step(int(action[0]))
    return Verdict(False, most_frames)


def by_policy(
    table: Table,
    trial: Trial,
    policy: Callable[[Columns], int],
    seed: int,
    most_frames: int = MOST_FRAMES,
) -> Verdict:
    """A policy alone, until the dialog is over or the room's riddle is solved.

    A room that was left counts as not solved.
    """
    table.set_up(trial, seed)
    room = table.columns.place[0]
    for frames in range(0, most_frames, table.frame_skip):
        state = table.scene.state
        if trial.mode is Mode.DIALOG and not is_dialog_state(state):
            return Verdict(True, frames)
        if trial.mode is Mode.PUZZLE and table.columns.place[0] != room:
            return Verdict(False, frames)
        if trial.mode is Mode.PUZZLE and state.has_control and puzzle_of(state, table.profile) is None:
            return Verdict(True, frames)
        table.step(policy(table.columns))
    return Verdict(False, most_frames)
