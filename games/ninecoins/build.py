"""Builds Nine Coins, a tiny game of our own that stands in for somebody's homebrew, with sdcc 4.2.0.

python -m games.ninecoins.build            # writes build/ninecoins/ninecoins.gbc
python -m games.ninecoins.build --keep     # also replaces games/ninecoins/ninecoins.gbc
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from games.standin.build import LINK, read_ihx, with_header

HERE = Path(__file__).resolve().parent
KEPT = HERE / "ninecoins.gbc"
TITLE = b"NINE COINS"


def build(out: Path) -> bytes:
    """Compile under `out` and return the ROM's bytes."""
    out.mkdir(parents=True, exist_ok=True)
    start, game, image = out / "crt0.rel", out / "ninecoins.rel", out / "ninecoins.ihx"
    commands = (
        ["sdasgb", "-o", str(start), str(HERE.parent / "standin/src/crt0.s")],
        ["sdcc", "-msm83", "--std-c11", "--no-peep", "-c", str(HERE / "ninecoins.c"), "-o", str(game)],
        ["sdcc", "-msm83", *LINK, "-o", str(image), str(start), str(game)],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    rom = with_header(read_ihx(image.read_text()), TITLE)
    (out / "ninecoins.gbc").write_bytes(rom)
    return rom


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "build/ninecoins")
    parser.add_argument("--keep", action="store_true", help="replace games/ninecoins/ninecoins.gbc")
    args = parser.parse_args()
    rom = build(args.out)
    if args.keep:
        KEPT.write_bytes(rom)
    print(f"ninecoins.gbc: {len(rom.rstrip(bytes([255])))} bytes used")


if __name__ == "__main__":
    main()
