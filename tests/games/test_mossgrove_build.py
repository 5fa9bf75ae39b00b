"""The shipped ROM is what its source builds."""

import hashlib
import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT, SHIPPED


def _sdcc_version() -> str:
    if not shutil.which("sdcc"):
        return "none"
    return subprocess.run(["sdcc", "--version"], capture_output=True, text=True, check=True).stdout


def test_shipped_rom_has_its_digest_and_header():
    rom = SHIPPED.read_bytes()
    digest, name = SHIPPED.with_suffix(".gbc.sha256").read_text().split()
    assert (digest, name) == (hashlib.sha256(rom).hexdigest(), SHIPPED.name)
    assert len(rom) == 0x8000
    assert rom[0x143] == 0x80  # colour
    assert rom[0x147:0x14A] == bytes(3)  # no mapper, 32 KiB, no RAM
    assert not any(rom[0x104:0x134])
    checksum = 0
    for byte in rom[0x134:0x14D]:
        checksum = (checksum - byte - 1) & 0xFF
    assert rom[0x14D] == checksum


@pytest.mark.long
@pytest.mark.skipif("4.2.0" not in _sdcc_version(), reason="needs sdcc 4.2.0")
def test_rebuilding_gives_the_shipped_bytes(tmp_path):
    command = [sys.executable, str(ROOT / "games/mossgrove/build.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    assert (tmp_path / "mossgrove.gbc").read_bytes() == SHIPPED.read_bytes()
