"""ROM files, checked before an emulator loads them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from questloop.errors import BadDataError

BUNDLED = "mossgrove.gbc"
_SMALLEST = 0x8000
_REMEDY = "dump the cartridge again, or set ROM_PATH to another file"


@dataclass(frozen=True)
class Rom:
    """A Game Boy Color ROM: `name` is its file name, `sha256` of `data` in hex."""

    path: Path
    name: str
    sha256: str
    data: bytes = field(repr=False)

    @classmethod
    def load(cls, path: Path | str | None = None) -> Rom:
        """Read and check a ROM; None is the bundled Mossgrove.

        Raises `BadDataError` for a file that is missing, cut off, damaged or not for the Game Boy Color.
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
    def title(self) -> str:
        """The title in the header, printable ASCII only."""
        raw = self.data[0x134:0x143].split(b"\0")[0]
        return "".join(chr(byte) for byte in raw if 0x20 <= byte < 0x7F)


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise BadDataError(f"ROM {path} is a directory; set ROM_PATH to the .gbc file inside it")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadDataError(
            f"ROM {path}: {error.strerror}; set ROM_PATH to a readable .gbc file"
            " (unset, the bundled Mossgrove is played)"
        ) from None


def _check(path: Path, data: bytes) -> None:
    if len(data) < _SMALLEST:
        raise BadDataError(f"ROM {path} is cut off: {len(data)} bytes, at least {_SMALLEST}; {_REMEDY}")
    declared = _SMALLEST << data[0x148] if data[0x148] <= 8 else 0
    checksum = 0
    for byte in data[0x134:0x14D]:
        checksum = (checksum - byte - 1) & 0xFF
    if checksum != data[0x14D]:
        raise BadDataError(
            f"ROM {path} is no Game Boy ROM or is damaged:"
            f" header checksum {data[0x14D]:02X}, computed {checksum:02X}; {_REMEDY}"
        )
    if len(data) < declared:
        raise BadDataError(f"ROM {path} is cut off: {len(data)} bytes, its header says {declared}; {_REMEDY}")
    if not data[0x143] & 0x80:
        raise BadDataError(f"ROM {path} is for the original Game Boy, not the Color; {_REMEDY}")
