"""The emulator on a toy ROM: inputs, states, and what is refused."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest

from questloop.errors import BadDataError
from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.rom import Rom
from questloop.game.state_file import SaveState
from questloop.game.taps import Tap, TapLayout

LAYOUT = TapLayout(
    [
        Tap("y", 1, 0xD00B),
        Tap("x", 1, 0xD00D),
        Tap("presses", None, 0xC620),
        Tap("clock", None, 0xC622),
    ]
)


@pytest.fixture(params=[True, False], ids=["color", "original"])
def emulator(request, toy_bytes):
    """Of a game for the Game Boy Color, and of one for the original Game Boy."""
    emulator = Emulator(Rom.of(Path("toy.gb"), toy_bytes(color=request.param)), LAYOUT)
    emulator.step(Action.NOP, 120)  # the boot ROM takes half of them
    yield emulator
    emulator.close()


def read(emulator) -> dict[str, int]:
    row = np.zeros(LAYOUT.size, np.uint8)
    emulator.read(row)
    return dict(zip(("y", "x", "presses", "clock"), row.tolist(), strict=True))


@pytest.mark.parametrize(
    ("action", "dy", "dx"),
    [(Action.UP, -1, 0), (Action.DOWN, 1, 0), (Action.LEFT, 0, -1), (Action.RIGHT, 0, 1), (Action.NOP, 0, 0)],
)
def test_d_pad_is_held_through_steps(emulator, action, dy, dx):
    before = read(emulator)
    for _ in range(3):
        emulator.step(action, 4)
    after = read(emulator)
    assert (after["y"] - before["y"]) % 256 == 12 * dy % 256
    assert (after["x"] - before["x"]) % 256 == 12 * dx % 256
    assert (after["clock"] - before["clock"]) % 256 == 12


@pytest.mark.parametrize("frames", [2, 3, 4, 8])
def test_same_button_twice_is_two_presses(emulator, frames):
    before = read(emulator)["presses"]
    for _ in range(5):
        emulator.step(Action.A, frames)
    emulator.step(Action.NOP, 1)
    assert read(emulator)["presses"] - before == 5


def test_a_button_releases_the_d_pad(emulator):
    emulator.step(Action.RIGHT, 4)
    emulator.step(Action.A, 4)
    x = read(emulator)["x"]
    emulator.step(Action.A, 4)
    assert read(emulator)["x"] == x


def test_held_buttons_do_not_survive_a_load(emulator):
    emulator.step(Action.RIGHT, 4)
    state = emulator.save()
    emulator.load(state)
    before = read(emulator)
    emulator.step(Action.NOP, 30)
    assert read(emulator)["x"] == before["x"]


def test_states_restore_memory_and_screen(emulator):
    emulator.step(Action.DOWN, 8)
    state = emulator.save()
    runs = []
    for _ in range(2):
        emulator.load(state)
        emulator.step(Action.RIGHT, 7)
        emulator.step(Action.A, 5, render=True)
        ram = emulator.peek(0xC000, 0x1000) + emulator.peek(0xD000, 0xFFF, bank=1)
        runs.append((ram, emulator.frame().tobytes()))
    assert runs[0] == runs[1]
    assert emulator.frame().shape == (144, 160, 3)


def test_a_picture_leaves_the_game_where_it_was(emulator):
    emulator.step(Action.RIGHT, 4)
    before = read(emulator)
    picture = emulator.picture()
    assert read(emulator) == before
    emulator.step(Action.NOP, 1, render=True)
    np.testing.assert_array_equal(emulator.frame(), picture)


def test_reset_is_power_on(emulator):
    emulator.reset()
    fresh = Emulator(emulator.rom, LAYOUT)
    assert emulator.save().data == fresh.save().data


def test_a_state_of_another_rom_is_refused(emulator, other_rom):
    state = Emulator(other_rom, LAYOUT).save()
    with pytest.raises(BadDataError, match=r"ROM .* became .*questloop states"):
        emulator.load(state)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"pyboy_version": "1.0.0"}, "PyBoy 1.0.0"), ({"layout_hash": "0" * 64}, "tap layout")],
)
def test_a_state_of_another_version_is_refused(emulator, change, named):
    with pytest.raises(BadDataError, match=named):
        emulator.load(dataclasses.replace(emulator.save(), **change))


@pytest.mark.parametrize("keep", [0, 1, 1000, -1])
def test_a_cut_off_state_is_refused_and_leaves_the_game_as_it_was(emulator, keep):
    before = emulator.save()
    with pytest.raises(BadDataError, match="cut off"):
        emulator.load(dataclasses.replace(before, data=before.data[:keep]))
    assert emulator.save().data == before.data


def test_a_state_of_the_original_game_boy_is_refused(emulator):
    state = emulator.save()
    with pytest.raises(BadDataError, match="CGB"):
        emulator.load(dataclasses.replace(state, data=state.data[:5] + b"\0" + state.data[6:]))


def test_save_files_beside_the_rom_are_not_loaded(toy_bytes, tmp_path):
    from questloop.game.rom import Rom

    data = bytearray(toy_bytes())
    data[0x147], data[0x149] = 0x1B, 2  # MBC5 with battery-backed RAM
    checksum = 0
    for byte in data[0x134:0x14D]:
        checksum = (checksum - byte - 1) & 0xFF
    data[0x14D] = checksum
    path = tmp_path / "game.gbc"
    path.write_bytes(data)
    path.with_name("game.gbc.ram").write_bytes(b"\x55" * 0x8000)
    emulator = Emulator(Rom.load(path), LAYOUT)
    emulator.step(Action.NOP, 4)
    assert b"\x55" not in emulator.peek(0xA000, 0x1000, bank=0)
    emulator.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["game.gbc", "game.gbc.ram"]


def test_import_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import questloop.game.emulator  # noqa: F401


def test_state_files_round_trip_and_refuse_damage(emulator, tmp_path):
    state = dataclasses.replace(emulator.save(), cell="0:a7:3,4", raw_return=1.5)
    blob = state.to_bytes()
    assert SaveState.from_bytes(blob) == state
    path = tmp_path / "s.state"
    path.write_bytes(blob[:-20])
    with pytest.raises(BadDataError, match=r"s\.state is cut off"):
        SaveState.load(path)
    with pytest.raises(BadDataError, match="No such file"):
        SaveState.load(tmp_path / "none.state")
    for damaged in (b"", b"x", blob[:30], b"y" + blob, blob.replace(b'"format": 1', b'"format": 9')):
        with pytest.raises(BadDataError):
            SaveState.from_bytes(damaged)
