"""Random play from the beginning and from every milestone: no hang, no trap, nothing insane."""

import numpy as np
import pytest

from questloop.game.actions import ACTION_COUNT, Action
from questloop.game.emulator import Emulator
from questloop.game.gates import check_game
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import StartState, beginnings

PLAYTIME = 0xC622
PATIENCE_STEPS = 400


@pytest.fixture(scope="module")
def starts():
    return list(beginnings(Rom.load(), PROFILE, milestones=True))


def playtime(emulator: Emulator) -> int:
    return int.from_bytes(emulator.peek(PLAYTIME, 4), "little")


def has_control(emulator: Emulator) -> bool:
    row = np.zeros((1, PROFILE.layout.size), np.uint8)
    emulator.read(row[0])
    return bool(PROFILE.columns(row).has_control[0])


def play_at_random(emulator: Emulator, rng: np.random.Generator, steps: int) -> None:
    for _ in range(steps // 4):
        action = int(rng.integers(ACTION_COUNT))
        for _ in range(int(rng.integers(1, 8))):
            emulator.step(action, 4)


def assert_it_goes_on(start: StartState, seed: int, steps: int) -> None:
    emulator = Emulator(Rom.load(), PROFILE.layout)
    emulator.load(start.state)
    before = playtime(emulator)
    play_at_random(emulator, np.random.default_rng(seed), steps)
    after = playtime(emulator)
    assert after - before > 2 * steps, f"{start.name}: the frame counter stands still"
    for step in range(PATIENCE_STEPS):
        if has_control(emulator):
            break
        emulator.step(Action.A if step % 2 else Action.NOP, 4)
    assert has_control(emulator), f"{start.name}: control does not come back"
    emulator.close()


@pytest.mark.slow
def test_random_play_goes_on_and_control_comes_back(starts):
    for seed, start in enumerate(starts):
        assert_it_goes_on(start, seed, steps=300)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(len(PROFILE.milestones) + 1))
def test_so_does_a_million_frames_of_it(starts, number):
    assert_it_goes_on(starts[number], number, steps=250_000)


@pytest.mark.long
def test_gates_stay_quiet(starts):
    for start in starts:
        assert check_game(Rom.load(), PROFILE, start, steps=400) == [], start.name
