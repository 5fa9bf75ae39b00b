"""Save states that say which ROM, emulator and memory layout they belong to.

An emulator state is bytes that PyBoy would load into any game. A `SaveState` carries the ROM, the PyBoy
version and the tap layout it was made with, and its own digest, so that a wrong or cut-off one is refused.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from questloop.errors import BadDataError

_MAGIC = b"QUESTLOOP-STATE\n"
_FORMAT = 1
_LARGEST = 16 * 2**20  # bytes; PyBoy's are some 200 KB


@dataclass(frozen=True)
class SaveState:
    """A state of the emulator.

    `cell` and `raw_return` belong to the archive of restart cells: where the state stands, and the unshaped
    return (since the episode's start) that it was reached with.
    """

    data: bytes = field(repr=False)
    rom_sha256: str
    pyboy_version: str
    layout_hash: str
    cell: str = ""
    raw_return: float = 0.0

    def to_bytes(self) -> bytes:
        """Header and compressed state, one self-contained file."""
        header = {
            "format": _FORMAT,
            "rom_sha256": self.rom_sha256,
            "pyboy_version": self.pyboy_version,
            "layout_hash": self.layout_hash,
            "cell": self.cell,
            "raw_return": self.raw_return,
            "size": len(self.data),
            "sha256": hashlib.sha256(self.data).hexdigest(),
        }
        return _MAGIC + json.dumps(header).encode() + b"\n" + zlib.compress(self.data, 1)

    @classmethod
    def from_bytes(cls, blob: bytes, source: str = "save state") -> SaveState:
        """Read `to_bytes`; `source` is what an error names. Raises `BadDataError`."""
        head, _, body = blob.removeprefix(_MAGIC).partition(b"\n")
        try:
            if not blob.startswith(_MAGIC):
                raise ValueError("not a Questloop save state")
            header = json.loads(head)
            if header["format"] != _FORMAT:
                raise ValueError(f"format {header['format']}, this version reads {_FORMAT}")
            data = _unpack(body, int(header["size"]))
            if len(data) != header["size"] or hashlib.sha256(data).hexdigest() != header["sha256"]:
                raise ValueError("its bytes do not match their digest")
            return cls(
                data,
                str(header["rom_sha256"]),
                str(header["pyboy_version"]),
                str(header["layout_hash"]),
                str(header["cell"]),
                float(header["raw_return"]),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, zlib.error) as error:
            raise BadDataError(f"{source} is cut off or damaged ({error}); {REMAKE}") from None

    def require(
        self, rom_sha256: str, pyboy_version: str, layout_hash: str, source: str = "save state"
    ) -> None:
        """Raise `BadDataError`, saying what changed, unless the state was made with exactly these."""
        changed = [
            f"{what} {theirs[:12]} became {ours[:12]}"
            for what, theirs, ours in (
                ("ROM", self.rom_sha256, rom_sha256),
                ("PyBoy", self.pyboy_version, pyboy_version),
                ("tap layout", self.layout_hash, layout_hash),
            )
            if theirs != ours
        ]
        if changed:
            raise BadDataError(f"{source} is of another game or version: {', '.join(changed)}; {REMAKE}")

    @classmethod
    def load(cls, path: Path) -> SaveState:
        """Read a file written from `to_bytes`."""
        try:
            blob = path.read_bytes()
        except OSError as error:
            raise BadDataError(f"save state {path}: {error.strerror}; {REMAKE}") from None
        return cls.from_bytes(blob, f"save state {path}")


def _unpack(body: bytes, size: int) -> bytes:
    """At most `size` bytes: a small file must not fill the memory."""
    if not 0 <= size <= _LARGEST:
        raise ValueError(f"a state of {size} bytes")
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(body, size + 1)
    if len(data) > size:
        raise ValueError(f"it unpacks to more than the {size} bytes that it says")
    return data


REMAKE = "make it again with `questloop states capture`"
