"""Many emulators in one process."""

import numpy as np
import pytest

from questloop.game.actions import Action
from questloop.game.batch import GameBatch, parts
from questloop.game.emulator import Emulator
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.taps import Tap, TapLayout

LAYOUT = TapLayout([Tap("y", 1, 0xD00B), Tap("x", 1, 0xD00D), Tap("clock", None, 0xC622)])


@pytest.fixture(params=[1, 3])
def batch(request, toy_rom):
    batch = GameBatch(toy_rom, LAYOUT, 5, threads=request.param)
    for _ in range(30):
        batch.step(np.full(5, Action.NOP, np.uint8))
    yield batch
    batch.close()


def test_each_slot_follows_its_own_action(batch):
    before = batch.taps.copy()
    actions = np.array([Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT, Action.NOP], np.uint8)
    after = batch.step(actions)
    assert after is batch.taps
    moved = (after.astype(int) - before).astype(np.int8)
    assert moved[:, :2].tolist() == [[-4, 0], [4, 0], [0, -4], [0, 4], [0, 0]]
    assert moved[:, 2].tolist() == [4] * 5


def test_a_paused_slot_stands_still_and_goes_on_from_there(batch):
    before = batch.taps.copy()
    batch.paused |= {1, 3}
    for _ in range(2):
        after = batch.step(np.full(5, Action.RIGHT, np.uint8))
    np.testing.assert_array_equal(after[[1, 3]], before[[1, 3]])
    assert ((after[[0, 2, 4], 2].astype(int) - before[[0, 2, 4], 2]) % 256).tolist() == [8] * 3
    batch.paused.clear()
    assert batch.step(np.full(5, Action.NOP, np.uint8))[1, 2] == (int(before[1, 2]) + 4) % 256


@pytest.mark.parametrize(("frame_skip", "lengths"), [(2, [2]), (4, [4]), (10, [4, 4, 2]), (16, [4] * 4)])
def test_a_script_chooses_the_buttons_within_a_step_by_what_it_sees(toy_rom, frame_skip, lengths):
    """What one step does in parts, steps of those lengths do."""
    batch = GameBatch(toy_rom, LAYOUT, 2, frame_skip)
    single = Emulator(toy_rom, LAYOUT)
    rows, row = [], np.zeros(LAYOUT.size, np.uint8)
    buttons = [Action.RIGHT, Action.DOWN, Action.A, Action.LEFT]

    def script() -> int:
        rows.append(batch.taps[1].copy())
        return buttons[len(rows)]

    batch.scripts[1] = script
    batch.step(np.array([Action.NOP, Action.RIGHT], np.uint8))
    assert batch.pressed == {1: bytes(buttons[: len(lengths)])}
    assert parts(frame_skip) == lengths
    for number, frames in enumerate(lengths):
        single.step(buttons[number], frames)
        single.read(row)
        rows_seen = [*rows, batch.taps[1]]
        np.testing.assert_array_equal(rows_seen[number], row)
    batch.scripts.clear()
    batch.paused.add(0)
    batch.step(np.array([Action.NOP, Action.NOP], np.uint8))
    assert batch.pressed == {0: b""}
    batch.close()


def test_a_slot_is_reset_alone(batch, toy_rom):
    state = batch.save(0)
    batch.step(np.full(5, Action.RIGHT, np.uint8))
    moved = batch.taps.copy()
    batch.load(2, state)
    assert batch.taps[2].tolist() != moved[2].tolist()
    assert batch.taps[[0, 1, 3, 4]].tolist() == moved[[0, 1, 3, 4]].tolist()
    batch.reset(2, None)
    assert batch.save(2).data == Emulator(toy_rom, LAYOUT).save().data


def test_frames_are_drawn_where_asked():
    rom = Rom.load()
    batch = GameBatch(rom, PROFILE.layout, 2, frame_skip=60)
    for _ in range(6):
        batch.step(np.full(2, Action.NOP, np.uint8), render=np.array([True, False]))
    assert batch.frame(0).shape == (144, 160, 3)
    assert len(np.unique(batch.frame(0).reshape(-1, 3), axis=0)) > 4
    batch.close()


def test_batch_and_single_emulator_agree_on_the_bundled_game():
    rom = Rom.load()
    rng = np.random.default_rng(3)
    script = rng.integers(0, 8, (120, 3)).astype(np.uint8)
    batch = GameBatch(rom, PROFILE.layout, 3, threads=2)
    rows = np.array([batch.step(actions).copy() for actions in script])
    batch.close()
    for slot in range(3):
        emulator, row = Emulator(rom, PROFILE.layout), np.zeros(PROFILE.layout.size, np.uint8)
        for t, action in enumerate(script[:, slot].tolist()):
            emulator.step(action, 4)
            emulator.read(row)
            np.testing.assert_array_equal(row, rows[t, slot])
