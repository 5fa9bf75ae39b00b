"""Long headless runs: memory stays flat, and nothing in the game goes insane."""

import os
from pathlib import Path

import numpy as np
import pytest

from questloop.game.batch import GameBatch
from questloop.game.gates import check_game
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import beginnings

STATM = Path("/proc/self/statm")
pytestmark = pytest.mark.skipif(not STATM.exists(), reason="needs /proc to read the memory in use")


def memory_mb() -> float:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize(
    "frames", [40_000, pytest.param(1_000_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])]
)
def test_memory_stays_flat(frames):
    batch = GameBatch(Rom.load(), PROFILE.layout, 4)
    rng = np.random.default_rng(0)
    state = batch.save(0)

    def play(steps: int) -> None:
        for step in range(steps):
            batch.step(rng.integers(0, 8, 4).astype(np.uint8), render=np.full(4, step % 10 == 0))
            if step % 500 == 0:
                batch.load(step % 4, state)

    play(frames // 64)
    before = memory_mb()
    play(frames // 16)
    batch.close()
    assert memory_mb() - before < 4


def test_an_emulator_takes_less_than_30_mb():
    GameBatch(Rom.load(), PROFILE.layout, 1).close()
    before = memory_mb()
    batch = GameBatch(Rom.load(), PROFILE.layout, 8)
    taken = (memory_mb() - before) / 8
    batch.close()
    assert taken < 30


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(len(PROFILE.milestones) + 1))
def test_a_million_random_frames_from_every_start_state_stay_sane(number):
    rom = Rom.load()
    starts = list(beginnings(rom, PROFILE, milestones=True))
    assert len(starts) == len(PROFILE.milestones) + 1
    assert check_game(rom, PROFILE, starts[number], steps=250_000) == [], starts[number].name
