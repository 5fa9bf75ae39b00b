"""ROM files: each kind of bad file is one clear line."""

import gzip
import hashlib
import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from questloop.errors import BadDataError, UsageError
from questloop.game.emulator import Emulator
from questloop.game.profiles import mossgrove, profile_for
from questloop.game.rom import _TYPES, Rom


def test_the_bundled_rom_is_what_its_digest_says():
    rom = Rom.load()
    written = (rom.path.parent / f"{rom.name}.sha256").read_text().split()[0]
    assert rom.sha256 == hashlib.sha256(rom.data).hexdigest() == written
    assert profile_for(rom).name == "mossgrove"


def change(data: bytes, place: int, value: int, mend: bool = True) -> bytes:
    """One header byte changed, with the checksum made right again."""
    changed = bytearray(data)
    changed[place] = value
    if mend:
        checksum = 0
        for byte in changed[0x134:0x14D]:
            checksum = (checksum - byte - 1) & 0xFF
        changed[0x14D] = checksum
    return bytes(changed)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda data: b"", "cut off: 0 bytes"),
        (lambda data: data[:0x4000], "cut off"),
        (lambda data: change(data, 0x148, 1), "its header says 65536"),
        (lambda data: change(data, 0x135, 0x41, mend=False), "checksum"),
        (lambda data: b"\x7fELF" + bytes(0x8000), "checksum"),
        (lambda data: change(data, 0x147, 0xFE), r"type FE \(HuC3\)"),
        (lambda data: change(data, 0x147, 0x20), r"type 20 \(MBC6\)"),
        (lambda data: change(data, 0x147, 0x22), r"type 22 \(MBC7\)"),
        (lambda data: change(data, 0x147, 0xFC), "Pocket Camera"),
        (lambda data: change(data, 0x147, 0x77), "type 77 is not played"),
        (lambda data: change(data, 0x148, 9), "ROM size 09"),
        (lambda data: change(data, 0x148, 0x52), "ROM size 52"),
        (lambda data: change(data, 0x149, 9), "RAM size 09"),
        (lambda data: data + b"x", "no whole number of banks"),
        (lambda data: data + bytes(9 << 20), "more than 8388608 bytes"),
    ],
)
def test_a_bad_rom_names_its_path_and_the_remedy(tmp_path, toy_bytes, spoil, named):
    path = tmp_path / "bad.gbc"
    path.write_bytes(spoil(toy_bytes()))
    with pytest.raises(BadDataError, match=named) as caught:
        Rom.load(path)
    assert str(path) in str(caught.value)
    assert "ROM_PATH" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_rom_and_a_directory(tmp_path):
    with pytest.raises(BadDataError, match=r"none\.gbc: No such file.*ROM_PATH"):
        Rom.load(tmp_path / "none.gbc")
    with pytest.raises(BadDataError, match="is a directory"):
        Rom.load(tmp_path)


def test_a_rom_that_no_profile_plays(toy_rom):
    with pytest.raises(UsageError, match=r"toy\.gbc .*'TOY'.*add-a-game"):
        profile_for(toy_rom)


def test_what_is_no_file_at_all(tmp_path):
    loop = tmp_path / "loop.gbc"
    loop.symlink_to(loop)
    with pytest.raises(BadDataError, match=r"loop.gbc: Too many levels"):
        Rom.load(loop)
    os.mkfifo(tmp_path / "pipe.gbc")
    for path in (tmp_path / "pipe.gbc", Path("/dev/zero")):
        with pytest.raises(BadDataError, match="no regular file"):
            Rom.load(path)


@pytest.mark.parametrize("kind", sorted(_TYPES))
@pytest.mark.parametrize("ram_size", range(6))
def test_every_cartridge_that_is_let_through_plays_or_is_one_line(toy_bytes, kind, ram_size):
    data = change(change(toy_bytes(), 0x147, kind), 0x149, ram_size)
    rom = Rom.of(Path("any.gbc"), data)
    try:
        Emulator(rom, mossgrove.LAYOUT).close()
    except BadDataError as error:
        pytest.fail(str(error))


def test_what_the_emulator_refuses_is_one_line(toy_rom):
    odd = replace(toy_rom, data=b"")  # past the checks of a file
    with pytest.raises(BadDataError, match="the emulator does not take it") as error:
        Emulator(odd, mossgrove.LAYOUT)
    assert "\n" not in str(error.value)


def test_a_packed_rom_is_called_so(tmp_path):
    """As they are downloaded."""
    rom = Rom.load().data
    for number, (name, data) in enumerate(
        [
            ("zip", zipped(rom)),
            ("gzip", gzip.compress(rom)),
            ("7z", b"7z\xbc\xaf\x27\x1c" + rom),
            ("rar", b"Rar!\x1a\x07\x01\x00" + rom),
        ]
    ):
        path = tmp_path / f"{number}.gbc"
        path.write_bytes(data)
        with pytest.raises(BadDataError, match=f"is a {name} archive: unpack it"):
            Rom.load(path)


def zipped(data):
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("game.gbc", data)
    return into.getvalue()
