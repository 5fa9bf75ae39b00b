"""Rewards in the bundled game, played on a real emulator."""

from importlib import resources

import numpy as np
import pytest

from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, load_start_states
from questloop.rewards.total import Rewards
from questloop.settings import RewardSettings

WEIGHTS = RewardSettings()


class Game:
    """One emulator and its rewards; `parts` are sums since power-on or the last `begin`."""

    def __init__(self) -> None:
        self.rom = Rom.load(None)
        self.profile = profile_for(self.rom)
        self.rewards = Rewards(1, WEIGHTS)
        self._emulator = Emulator(self.rom, self.profile.layout)
        self._taps = np.zeros((1, self.profile.layout.size), np.uint8)
        self.begin()

    def begin(self, state=None) -> None:
        if state is not None:
            self._emulator.load(state)
        self.columns = self._read()
        self.rewards.reset(np.array([0]), self.columns)
        self.parts = dict.fromkeys(self.rewards.names, 0.0)

    def step(self, action: Action, frames: int = 4) -> None:
        self._emulator.step(action, frames)
        self.columns = self._read()
        self.rewards.step(self.columns)
        for name, value in zip(self.rewards.names, self.rewards.parts[0].tolist(), strict=True):
            self.parts[name] += value

    def close(self) -> None:
        self._emulator.close()

    def _read(self):
        self._emulator.read(self._taps[0])
        return self.profile.columns(self._taps)


@pytest.fixture
def game():
    made = Game()
    yield made
    made.close()


@pytest.fixture
def begun(game):
    """The game where the player has control for the first time."""
    game.begin(load_start_states(game.rom, game.profile).named(BEGINNING).state)
    return game


def test_the_menu_pays_nothing_however_often_it_is_opened(begun):
    for _ in range(150):
        begun.step(Action.START)
        for _ in range(10):
            begun.step(Action.NOP)
    assert {name: value for name, value in begun.parts.items() if value} == {}


def test_walking_to_and_fro_pays_each_tile_once(begun):
    for _ in range(40):
        for action in [Action.LEFT] * 6 + [Action.RIGHT] * 6:
            begun.step(action)
    assert 0 < begun.parts["tile"] <= 10 * WEIGHTS.reward_tile
    assert begun.parts["revisit"] < 40 * WEIGHTS.reward_revisit
    assert begun.parts["room"] == 0


def test_a_walk_through_the_whole_game_pays_once_for_all_that_is_owned_at_its_end(game):
    script = resources.files("questloop.game") / "roms" / game.profile.walkthrough
    for item in steps(parse_inputs(script.read_text("utf-8")), 4):
        game.step(item.action, item.frames)
    goal = [milestone.key for milestone in game.profile.milestones].index(game.profile.goal)
    end = game.columns
    assert end.milestones[0] >> np.uint64(goal) & np.uint64(1)
    assert game.parts["sword"] == pytest.approx(WEIGHTS.reward_sword * end.sword_level[0])
    assert game.parts["essence"] == pytest.approx(WEIGHTS.reward_essence * end.essence_count[0])
    assert game.parts["room"] == pytest.approx(WEIGHTS.reward_room * (game.rewards.coverage.rooms[0] - 1))
    assert game.parts["key"] >= WEIGHTS.reward_key * (end.small_keys[0] + end.boss_keys[0])
    assert game.parts["death"] == 0
