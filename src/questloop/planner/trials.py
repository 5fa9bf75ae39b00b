"""Dialogs and puzzle rooms to try a planner on, taken from the walkthrough that a game ships."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np

from questloop.game.actions import ACTION_COUNT, Action
from questloop.game.batch import GameBatch
from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.state_file import SaveState
from questloop.planner.client import Planner
from questloop.planner.modes import Mode, ModeRules
from questloop.planner.takeover import SOLVED, Takeovers, scene_of
from questloop.planner.view import Scene, is_dialog_state, puzzle_of

_STEP_FRAMES = 4
_MOST_DELAY = 40  # steps for which a seed lets the game run before the trial begins


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
    steps: int
    outcome: str = ""
    plans: int = 0


def trials(rom: Rom, profile: Profile) -> list[Trial]:
    """Every dialog of the walkthrough by its text, and every puzzle room at its first entry."""
    script = resources.files("questloop.game") / "roms" / profile.walkthrough
    emulator = Emulator(rom, profile.layout)
    row = np.zeros((1, profile.layout.size), np.uint8)
    found: dict[str, Trial] = {}
    talking = False
    for item in steps(parse_inputs(script.read_text("utf-8"), profile.walkthrough), _STEP_FRAMES):
        emulator.step(item.action, item.frames)
        emulator.read(row[0])
        columns = profile.columns(row)
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
    emulator.close()
    return list(found.values())


class Table:
    """One game to play trials on; a `takeover.Game`."""

    num_slots = 1

    def __init__(self, rom: Rom, profile: Profile) -> None:
        self.profile = profile
        self.batch = GameBatch(rom, profile.layout, 1, _STEP_FRAMES)
        self.columns = profile.columns(self.batch.taps)

    def set_up(self, trial: Trial, seed: int) -> None:
        """Begin a trial; the seed lets a puzzle room run on for a while, the hero standing still."""
        self.batch.reset(0, trial.state)
        self.columns = self.profile.columns(self.batch.taps)
        if trial.mode is Mode.PUZZLE:
            for _ in range(int(np.random.default_rng(seed).integers(_MOST_DELAY))):
                self.step(Action.NOP)

    def step(self, action: int) -> None:
        """One step."""
        self.columns = self.profile.columns(self.batch.step(np.array([action], np.uint8)))

    @property
    def scene(self) -> Scene:
        """What the game shows."""
        return scene_of(self, 0)

    def close(self) -> None:
        self.batch.close()


def by_planner(table: Table, trial: Trial, planner: Planner, seed: int, most_steps: int = 4000) -> Verdict:
    """Let the mode switch and the planner play; nobody presses anything otherwise."""
    table.set_up(trial, seed)
    takeovers = Takeovers(table, planner, _STEP_FRAMES, ModeRules(cooldown_frames=most_steps))
    action, mask = np.zeros(1, np.uint8), np.ones(1, np.bool_)
    for step in range(most_steps):
        action[0], mask[0] = Action.NOP, True
        takeovers.act(action, mask)
        report = takeovers.latest
        if report.outcomes:
            outcome = next(iter(report.outcomes)).partition(" ")[2]
            return Verdict(outcome == SOLVED, step, outcome, report.plans)
        table.step(int(action[0]))
    return Verdict(False, most_steps)


def by_chance(table: Table, trial: Trial, seed: int, most_steps: int = 4000) -> Verdict:
    """The untrained policy: uniform actions, until the dialog is over or the room's riddle is solved.

    A room that was left counts as not solved.
    """
    table.set_up(trial, seed)
    rng = np.random.default_rng(seed)
    room = table.columns.place[0]
    for step in range(most_steps):
        state = table.scene.state
        if trial.mode is Mode.DIALOG and not is_dialog_state(state):
            return Verdict(True, step)
        if trial.mode is Mode.PUZZLE and table.columns.place[0] != room:
            return Verdict(False, step)
        if trial.mode is Mode.PUZZLE and state.has_control and puzzle_of(state, table.profile) is None:
            return Verdict(True, step)
        table.step(int(rng.integers(ACTION_COUNT)))
    return Verdict(False, most_steps)
