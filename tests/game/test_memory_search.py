"""Addresses found by how they change, on Nine Coins."""

from pathlib import Path

import numpy as np
import pytest

from questloop.errors import BadDataError, UsageError
from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.memory_search import Step, search
from questloop.game.profiles.named import named_profile
from questloop.game.rom import Rom

NINE_COINS = Path(__file__).parents[2] / "games/ninecoins"


@pytest.fixture
def playing():
    emulator = Emulator(
        Rom.load(NINE_COINS / "ninecoins.gbc"), named_profile(str(NINE_COINS / "ninecoins.py")).layout
    )
    for action, frames in ((Action.NOP, 200), (Action.START, 8), (Action.NOP, 90)):
        emulator.step(action, frames)
    yield emulator
    emulator.close()


@pytest.mark.parametrize(
    ("steps", "bank", "address"),
    [
        (["RIGHT 16: up", "NOP 30: same", "LEFT 8: down", "DOWN 16: same"], 1, 0xD00D),
        (["DOWN 16: up", "NOP 30: same", "UP 8: down", "RIGHT 16: same"], 1, 0xD00B),
        (["RIGHT 80: +1", "LEFT 80: -1", "DOWN 80: +3"], 1, 0xD010),
        (["UP 10, DOWN 10: =2", "LEFT 4: =3", "RIGHT 4: changed", "UP 4: =0"], 1, 0xD011),
    ],
)
def test_a_byte_is_found_by_how_it_changes(playing, steps, bank, address):
    (found,) = search(playing, [Step.parse(step) for step in steps])
    assert (found.bank, found.address) == (bank, address)
    assert found.tap == f'Tap("name", {bank}, 0x{address:04X})'
    assert len(found.values) == len(steps) + 1


def test_what_never_changes_so_is_nowhere(playing):
    assert search(playing, [Step.parse("NOP 4: =255"), Step.parse("NOP 4: =0")]) == []


@pytest.mark.parametrize(
    ("change", "before", "after", "held"),
    [
        ("up", 3, 4, True),
        ("up", 4, 4, False),
        ("down", 4, 3, True),
        ("same", 4, 4, True),
        ("changed", 4, 5, True),
        ("+2", 255, 1, True),
        ("-1", 0, 255, True),
        ("=0x10", 0, 16, True),
    ],
)
def test_changes(change, before, after, held):
    step = Step.parse(f"NOP 4: {change}")
    values = np.array([before], np.uint8), np.array([after], np.uint8)
    assert step.holds(*values).tolist() == [held]


@pytest.mark.parametrize("text", ["RIGHT 16", "RIGHT 16: higher", ": up", "RIGHT 16: +", "RIGHT 16: +x"])
def test_a_step_that_is_none_says_how_to_write_one(text):
    with pytest.raises(UsageError, match="write inputs, a colon and a change"):
        Step.parse(text)


def test_inputs_that_are_none_are_named():
    with pytest.raises(BadDataError, match="ACTION FRAMES"):
        Step.parse("JUMP 16: up")
