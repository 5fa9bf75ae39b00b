"""ROM files: each kind of bad file is one clear line."""

import hashlib

import pytest

from questloop.errors import BadDataError, UsageError
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom


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
        (lambda data: change(data, 0x143, 0x00), "not the Color"),
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
