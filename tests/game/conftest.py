"""A toy ROM: twenty instructions of machine code that move two bytes of memory with the d-pad."""

from pathlib import Path

import pytest

from questloop.game.rom import Rom

HALT, RETI = 0x76, 0xD9


def header_checksum(data: bytes) -> int:
    """As the boot ROM computes it over 0134-014C."""
    checksum = 0
    for byte in data[0x134:0x14D]:
        checksum = (checksum - byte - 1) & 0xFF
    return checksum


def build_toy(title: bytes = b"TOY", color: bool = True) -> bytes:
    """A 32 KiB ROM for the Game Boy Color, or the original one.

    Position at D00B (y) and D00D (x), presses of A counted at C620, frames at C622.
    """
    setup = bytes([0xF3, 0x31, 0xC0, 0xC2, 0x3E, 0x01, 0xE0, 0xFF, 0xFB])  # di; sp=C2C0; IE=VBlank; ei
    read_pad = bytes([HALT, 0x00, 0x3E, 0x20, 0xE0, 0x00, 0xF0, 0x00, 0xF0, 0x00, 0x2F, 0xE6, 0x0F, 0x47])
    moves = b"".join(_if_bit(bit, address, op) for bit, address, op in _MOVES)
    # Buttons: count a press of A only when it was up a frame before (C630 holds the frame before).
    read_buttons = bytes([0x3E, 0x10, 0xE0, 0x00, 0xF0, 0x00, 0xF0, 0x00, 0x2F, 0xE6, 0x01, 0x47])
    edge = bytes([0x21, 0x30, 0xC6, 0x7E, 0x70, 0x2F, 0xA0, 0x28, 0x04, 0x21, 0x20, 0xC6, 0x34])
    count = bytes([0x21, 0x22, 0xC6, 0x34])
    loop = read_pad + moves + read_buttons + edge + count
    code = setup + loop + bytes([0x18, (-len(loop) - 2) & 0xFF])
    rom = bytearray(0x8000)
    for vector in range(0x40, 0x68, 8):
        rom[vector] = RETI
    rom[0x100:0x104] = bytes([0x00, 0xC3, 0x50, 0x01])
    rom[0x134 : 0x134 + len(title)] = title
    rom[0x143] = 0x80 * color
    rom[0x150 : 0x150 + len(code)] = code
    rom[0x14D] = header_checksum(rom)
    return bytes(rom)


_MOVES = ((0, 0xD00D, 0x34), (1, 0xD00D, 0x35), (2, 0xD00B, 0x35), (3, 0xD00B, 0x34))


def _if_bit(bit: int, address: int, op: int) -> bytes:
    return bytes([0xCB, 0x40 + 8 * bit, 0x28, 0x04, 0x21, address & 0xFF, address >> 8, op])


@pytest.fixture(scope="session")
def toy_bytes():
    """Builder of toy ROMs."""
    return build_toy


@pytest.fixture(scope="session")
def toy_rom() -> Rom:
    return Rom.of(Path("toy.gbc"), build_toy())


@pytest.fixture(scope="session")
def other_rom() -> Rom:
    return Rom.of(Path("other.gbc"), build_toy(b"OTHER"))
