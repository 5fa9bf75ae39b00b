"""Builds the stand-in's ROM with sdcc 4.2.0: tables from facts and rooms, C to ihx, ihx to a ROM.

python -m games.standin.build            # writes build/standin/standin.gbc and says its SHA-256
python -m games.standin.build --keep     # also replaces games/standin/standin.gbc
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
from pathlib import Path

from . import facts
from .rooms import ROOMS

HERE = Path(__file__).resolve().parent
KEPT = HERE / "standin.gbc"
ROM_SIZE = 0x8000
TITLE = b"QL STAND-IN"
CFLAGS = ["-msm83", "--std-c11", "--no-peep", "--opt-code-size"]
LINK = ["--no-std-crt0", "--nostdlib", "--code-loc", "0x220", "--data-loc", "0xC100"]
KINDS = (
    "floor", "plain", "hole", "water", "lava", "spike", "warp", "ladder",
    "cliff up", "cliff right", "cliff down", "cliff left",
    "block", "block up", "block right", "block down", "block left", "block once", "ice block", "pot",
    "torch", "button", "switch", "chest", "sign", "lock", "boss lock",
)  # fmt: skip
"""In the order of `src/room.h`."""


def tables() -> str:
    """The C file of what metatiles are, and of the rooms."""
    lines = ['#include "room.h"']
    for name, value in (("kinds", _kind), ("usual", facts.usual_collision)):
        rows = [[value(mode, tile) for tile in range(256)] for mode in range(len(facts.MODES))]
        lines.append(f"const u8 {name}[6][256] = {{{','.join(_braced(row) for row in rows)}}};")
    for number, room in enumerate(ROOMS):
        lines.append(f"static const u8 room_{number}[] = {_braced(room.data())};")
    names = ",".join(f"room_{number}" for number in range(len(ROOMS)))
    lines += [f"const u8 *const rooms[] = {{{names}}};", f"const u8 room_count = {len(ROOMS)};"]
    return "\n".join(lines) + "\n"


def build(out: Path) -> bytes:
    """Compile everything under `out` and return the ROM's bytes."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "tables.c").write_text(tables())
    objects = [out / "crt0.rel"]
    _run("sdasgb", "-o", str(objects[0]), str(HERE / "src/crt0.s"))
    for source in [*sorted((HERE / "src").glob("*.c")), out / "tables.c"]:
        objects.append(out / f"{source.stem}.rel")
        _run("sdcc", *CFLAGS, f"-I{HERE / 'src'}", "-c", str(source), "-o", str(objects[-1]))
    _run("sdcc", "-msm83", *LINK, "-o", str(out / "standin.ihx"), *map(str, objects))
    rom = with_header(read_ihx((out / "standin.ihx").read_text()))
    (out / "standin.gbc").write_bytes(rom)
    return rom


def read_ihx(text: str) -> bytes:
    """Intel HEX records to 32 KiB; what no record covers is FF."""
    rom = bytearray(b"\xff" * ROM_SIZE)
    for line in text.splitlines():
        record = bytes.fromhex(line[1:])
        count, address, kind = record[0], int.from_bytes(record[1:3]), record[3]
        if kind == 0:
            if address + count > ROM_SIZE:
                raise SystemExit(f"the game does not fit {ROM_SIZE} bytes: record at {address:04X}")
            rom[address : address + count] = record[4 : 4 + count]
    return bytes(rom)


def with_header(rom: bytes, title: bytes = TITLE) -> bytes:
    """Cartridge header: no mapper, colour by flag 80, logo area left zero, both checksums right."""
    image = bytearray(rom)
    image[0x104:0x150] = bytes(0x4C)
    image[0x134 : 0x134 + len(title)] = title
    image[0x143] = 0x80
    image[0x14A] = 0x01
    image[0x14D] = -sum(byte + 1 for byte in image[0x134:0x14D]) & 0xFF
    image[0x14E:0x150] = (sum(image) & 0xFFFF).to_bytes(2, "big")
    return bytes(image)


def _kind(mode: int, tile: int) -> int:
    kind = facts.kind_of(mode, tile)
    return KINDS.index(kind) if kind in KINDS else KINDS.index("plain" if kind == "" else "floor")


def _braced(values: list[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "build/standin")
    parser.add_argument("--keep", action="store_true", help="replace games/standin/standin.gbc")
    args = parser.parse_args()
    rom = build(args.out)
    if args.keep:
        KEPT.write_bytes(rom)
    used = len(rom.rstrip(b"\xff"))
    print(f"standin.gbc {hashlib.sha256(rom).hexdigest()}: {used} of {ROM_SIZE} bytes used")


if __name__ == "__main__":
    main()
