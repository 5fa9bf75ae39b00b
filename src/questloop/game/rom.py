"""ROM files, checked before an emulator loads them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from questloop.errors import BadDataError

BUNDLED = "mossgrove.gbc"
TITLE_BYTES = 15
"""of the header at most"""
_SMALLEST = 0x8000
_LARGEST = _SMALLEST << 8
_BANK = 0x4000
# What the emulator plays, by the header's byte 0x147 (Pan Docs, "The Cartridge Header").
_TYPES = frozenset({0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x08, 0x09, *range(0x0F, 0x14), *range(0x19, 0x1F)})
_OTHER_TYPES = {
    0x0B: "MMM01", 0x0C: "MMM01", 0x0D: "MMM01", 0x20: "MBC6", 0x22: "MBC7", 0xFC: "Pocket Camera",
    0xFD: "TAMA5", 0xFE: "HuC3", 0xFF: "HuC1",
}  # fmt: skip
_PACKED = {"zip": b"PK\x03\x04", "gzip": b"\x1f\x8b\x08", "7z": b"7z\xbc\xaf\x27\x1c", "rar": b"Rar!\x1a\x07"}
"""what archives begin with"""
_REMEDY = "dump the cartridge again, or set ROM_PATH to another file"


@dataclass(frozen=True)
class Rom:
    """A ROM for the Game Boy or the Game Boy Color, which plays both: `name` is its file name, `sha256` of
    `data` in hex."""

    path: Path
    name: str
    sha256: str
    data: bytes = field(repr=False)

    @classmethod
    def load(cls, path: Path | str | None = None) -> Rom:
        """Read and check a ROM; None is the bundled Mossgrove.

        Raises `BadDataError` for a file that is missing, cut off, damaged or of a cartridge that is not
        played.
        """
        if path is None:
            path = Path(str(resources.files("questloop.game") / "roms" / BUNDLED))
        path = Path(path)
        return cls.of(path, _read(path))

    @classmethod
    def of(cls, path: Path, data: bytes) -> Rom:
        """A ROM from bytes already in memory; `path` is what errors name."""
        _check(path, data)
        return cls(path, path.name, hashlib.sha256(data).hexdigest(), data)

    @property
    def color(self) -> bool:
        """Whether it is for the Game Boy Color; others are played as that machine plays them."""
        return bool(self.data[0x143] & 0x80)

    @property
    def title(self) -> str:
        """The title in the header, printable ASCII only."""
        raw = self.data[0x134 : 0x134 + TITLE_BYTES].split(b"\0")[0]
        return "".join(chr(byte) for byte in raw if 0x20 <= byte < 0x7F)


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise BadDataError(f"ROM {path} is a directory; set ROM_PATH to the .gbc file inside it")
    try:
        if path.exists() and not path.is_file():
            raise BadDataError(f"ROM {path} is no regular file; set ROM_PATH to a .gbc file")
        with path.open("rb") as file:
            return file.read(_LARGEST + 1)
    except OSError as error:
        raise BadDataError(
            f"ROM {path}: {error.strerror}; set ROM_PATH to a readable .gbc file"
            " (unset, the bundled Mossgrove is played)"
        ) from None


def _check(path: Path, data: bytes) -> None:
    packed = next((name for name, sign in _PACKED.items() if data.startswith(sign)), None)
    if packed:
        raise BadDataError(
            f"ROM {path} is a {packed} archive: unpack it, and set ROM_PATH to the .gbc file in it"
        )
    if len(data) < _SMALLEST:
        raise BadDataError(f"ROM {path} is cut off: {len(data)} bytes, at least {_SMALLEST}; {_REMEDY}")
    if len(data) > _LARGEST:
        raise BadDataError(f"ROM {path} is no Game Boy ROM: it has more than {_LARGEST} bytes; {_REMEDY}")
    checksum = 0
    for byte in data[0x134:0x14D]:
        checksum = (checksum - byte - 1) & 0xFF
    if checksum != data[0x14D]:
        raise BadDataError(
            f"ROM {path} is no Game Boy ROM or is damaged:"
            f" header checksum {data[0x14D]:02X}, computed {checksum:02X}; {_REMEDY}"
        )
    _check_cartridge(path, data)
    declared = _SMALLEST << data[0x148]
    if len(data) < declared:
        raise BadDataError(f"ROM {path} is cut off: {len(data)} bytes, its header says {declared}; {_REMEDY}")


def _check_cartridge(path: Path, data: bytes) -> None:
    """Refuse a header that the emulator would stumble over."""
    kind, rom_size, ram_size = data[0x147], data[0x148], data[0x149]
    if kind not in _TYPES:
        name = f" ({_OTHER_TYPES[kind]})" if kind in _OTHER_TYPES else ""
        raise BadDataError(
            f"ROM {path}: cartridge type {kind:02X}{name} is not played, only those without a memory "
            f"controller or with MBC1, MBC2, MBC3 or MBC5; {_REMEDY}"
        )
    if rom_size > 8:
        raise BadDataError(f"ROM {path}: its header says ROM size {rom_size:02X}, of 00 to 08; {_REMEDY}")
    if ram_size > 5:
        raise BadDataError(f"ROM {path}: its header says RAM size {ram_size:02X}, of 00 to 05; {_REMEDY}")
    if len(data) % _BANK:
        raise BadDataError(
            f"ROM {path}: {len(data)} bytes are no whole number of banks of {_BANK}: "
            f"it is cut off or something was added; {_REMEDY}"
        )
