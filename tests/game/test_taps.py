"""Layouts: places, hash, constructed rows, bank rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.game.taps import IndexedTap, Tap, TapLayout

TAPS = (Tap("a", None, 0xC100, 2), Tap("b", 1, 0xD080, 16, 0x100), Tap("c", None, 0xFFA8, 4))


class Memory:
    """Stands in for PyBoy's memory view: every byte is a hash of its bank and address."""

    def __getitem__(self, key):
        bank, address = key if isinstance(key, tuple) else (0, key)
        return (address * 7 + address // 256 + bank * 31) & 0xFF


def test_row_is_the_taps_in_order():
    layout = TapLayout(TAPS)
    out = np.zeros(layout.size, np.uint8)
    layout.read(Memory(), out.data)
    assert layout.size == 2 + 16 + 4
    assert layout.offset("b") == slice(2, 18)
    assert layout.index("c", 3) == 21
    memory = Memory()
    expected = [memory[0xC100], memory[0xC101], *(memory[1, 0xD080 + 0x100 * n] for n in range(16))]
    assert out[:18].tolist() == expected


def test_indexed_tap_follows_two_bytes_and_unknown_pages_read_as_zero():
    layout = TapLayout(TAPS, [IndexedTap("flags", (0xC700, 0xC800), "a", "a")])
    memory = {key: 0 for tap in TAPS for key in ((a if tap.bank is None else (1, a)) for a in tap.addresses)}
    out = np.zeros(layout.size, np.uint8)
    layout.read(memory | {0xC100: 1, 0xC801: 99}, out.data)
    assert out[layout.index("flags")] == 99
    layout.read(memory | {0xC100: 2}, out.data)
    assert out[layout.index("flags")] == 0


@given(st.permutations(TAPS))
def test_hash_changes_with_order_and_only_then(taps):
    assert (TapLayout(taps).hash == TapLayout(TAPS).hash) == (tuple(taps) == TAPS)


@pytest.mark.parametrize(
    ("bank", "address", "length"),
    [(None, 0xD00B, 1), (1, 0xC100, 1), (None, 0x4000, 1), (None, 0xFFFF, 2), (None, 0xC100, 0)],
)
def test_taps_outside_ram_or_without_their_bank_are_refused(bank, address, length):
    with pytest.raises(ValueError, match="tap x"):
        Tap("x", bank, address, length)


def test_names_are_unique():
    with pytest.raises(ValueError, match="twice"):
        TapLayout([TAPS[0], TAPS[0]])


def test_constructed_rows():
    layout = TapLayout(TAPS)
    row = layout.row(a=[1, 2], c=9)
    assert row[:2].tolist() == [1, 2]
    assert row[layout.index("c")] == 9
    with pytest.raises(ValueError, match="tap a"):
        layout.row(a=[1, 2, 3])


@pytest.mark.parametrize(
    ("bank", "address", "length"),
    [(0, 0x8000, 16), (1, 0x9FFF, 1), (None, 0x8000, 1), (3, 0xA000, 1), (None, 0xA000, 1), (7, 0xDFFF, 1)],
)
def test_banked_memory_may_be_tapped(bank, address, length):
    assert Tap("x", bank, address, length).bank == bank


@pytest.mark.parametrize(
    ("bank", "address", "length"),
    [
        (2, 0x8000, 1),
        (0, 0xC000, 1),
        (0, 0xD000, 1),
        (8, 0xD000, 1),
        (1, 0x9FFF, 2),
        (None, 0xCFFF, 2),
        (0, 0xFF80, 1),
    ],
)
def test_banks_that_do_not_exist_are_refused(bank, address, length):
    with pytest.raises(ValueError, match="bank"):
        Tap("x", bank, address, length)


def test_video_memory_is_read_by_its_bank():
    from questloop.game.emulator import Emulator
    from questloop.game.rom import Rom

    layout = TapLayout([Tap("pictures", 0, 0x8000, 4), Tap("colours", 1, 0x9800, 4), Tap("c", None, 0xC000)])
    emulator = Emulator(Rom.load(), layout)
    emulator.poke(0x8000, bytes([1, 2, 3, 4]), bank=0)
    emulator.poke(0x9800, bytes([5, 6, 7, 8]), bank=1)
    out = np.zeros(layout.size, np.uint8)
    emulator.read(out)
    emulator.close()
    assert out[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
