"""Builds Mossgrove: art, maps and text to C, C to ihx with sdcc, ihx to a ROM with its header.

python games/mossgrove/build.py            # writes build/mossgrove/mossgrove.gbc and says its SHA-256
python games/mossgrove/build.py --ship     # also replaces the ROM in the package
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from tools import assets  # noqa: E402  (the folder of this script is no package)

REPOSITORY = HERE.parents[1]
SHIPPED = REPOSITORY / "src/questloop/game/roms/mossgrove.gbc"
ROM_SIZE = 0x8000
TITLE = b"MOSSGROVE"
CFLAGS = ["-msm83", "--std-c11", "--no-peep", "--opt-code-size", "--max-allocs-per-node", "4000"]
LINK = ["--no-std-crt0", "--nostdlib", "--code-loc", "0x220", "--data-loc", "0xD600"]
DATA_END = 0xE000


def build(out: Path) -> bytes:
    """Compile everything under `out` and return the ROM's bytes."""
    out.mkdir(parents=True, exist_ok=True)
    assets.write(HERE, out)
    objects = [_run(["sdasgb", "-o", str(out / "crt0.rel"), str(HERE / "src/crt0.s")], out / "crt0.rel")]
    for source in [*sorted((HERE / "src").glob("*.c")), out / "assets.c"]:
        target = out / f"{source.stem}.rel"
        include = [f"-I{HERE / 'src'}", f"-I{out}"]
        objects.append(_run(["sdcc", *CFLAGS, *include, "-c", str(source), "-o", str(target)], target))
    image = out / "mossgrove.ihx"
    _run(["sdcc", "-msm83", *LINK, "-o", str(image), *map(str, objects)], image)
    rom = with_header(read_ihx(image.read_text()))
    (out / "mossgrove.gbc").write_bytes(rom)
    return rom


def read_ihx(text: str) -> bytes:
    """Intel HEX records to 32 KiB; what no record covers is FF."""
    rom = bytearray(b"\xff" * ROM_SIZE)
    written: set[int] = set()
    for line in text.splitlines():
        record = bytes.fromhex(line[1:])
        count, address, kind = record[0], int.from_bytes(record[1:3]), record[3]
        if kind == 1:
            break
        if kind != 0 or address + count > ROM_SIZE:
            raise SystemExit(f"the game does not fit {ROM_SIZE} bytes: record at {address:04X}")
        if written.intersection(places := range(address, address + count)):
            raise SystemExit(f"two areas overlap at {address:04X}: raise --code-loc")
        written.update(places)
        rom[address : address + count] = record[4 : 4 + count]
    return bytes(rom)


def with_header(rom: bytes) -> bytes:
    """Cartridge header: no mapper, colour only by flag 80, logo area left zero, both checksums right."""
    image = bytearray(rom)
    image[0x104:0x150] = bytes(0x4C)
    image[0x134 : 0x134 + len(TITLE)] = TITLE
    image[0x143] = 0x80
    image[0x14A] = 0x01
    image[0x14D] = -sum(b + 1 for b in image[0x134:0x14D]) & 0xFF
    image[0x14E:0x150] = bytes(2)
    image[0x14E:0x150] = (sum(image) & 0xFFFF).to_bytes(2, "big")
    return bytes(image)


def sizes(out: Path) -> str:
    """Bytes of code and of data; refuses what the start code cannot provide."""
    areas = {}
    for line in (out / "mossgrove.map").read_text().splitlines():
        words = line.split()
        if len(words) > 4 and words[0].startswith("_") and words[3] == "=":
            areas[words[0]] = (int(words[1], 16), int(words[2], 16))
    if areas.get("_INITIALIZED", (0, 0))[1]:
        raise SystemExit("a variable has an initial value; the start code copies none")
    start, size = areas.get("_DATA", (0, 0))
    if start + size > DATA_END:
        raise SystemExit(f"data ends at {start + size:04X}, beyond {DATA_END:04X}")
    return f"code and tables {areas['_CODE'][1]} bytes, data {size}"


def _run(command: list[str], product: Path) -> Path:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:2])} ... failed:\n{done.stdout}{done.stderr}")
    if done.stderr.strip():
        print(done.stderr.strip(), file=sys.stderr)
    return product


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/mossgrove")
    parser.add_argument("--ship", action="store_true", help="replace the ROM in the package")
    args = parser.parse_args()
    rom = build(args.out)
    digest = hashlib.sha256(rom).hexdigest()
    if args.ship:
        SHIPPED.parent.mkdir(parents=True, exist_ok=True)
        SHIPPED.write_bytes(rom)
        Path(f"{SHIPPED}.sha256").write_text(f"{digest}  {SHIPPED.name}\n")
    used = len(rom.rstrip(b"\xff"))
    print(f"mossgrove.gbc {digest}\n{used} of {ROM_SIZE} bytes used; {sizes(args.out)}")


if __name__ == "__main__":
    main()
