"""Tiles, sprites and palettes: from ASCII drawings to the Game Boy's two-bit planes."""

from dataclasses import dataclass, field
from pathlib import Path

SHADES = ".:o#"
PALETTES = ("grass", "tree", "water", "stone", "earth", "roof", "bloom", "text")
FLIP_X, FLIP_Y, BANK_1 = 0x20, 0x40, 0x08
KINDS = ("tile", "sprite", "glyph", "icon")


@dataclass
class Drawing:
    kind: str
    name: str
    options: dict[str, str]
    rows: list[str] = field(default_factory=list)

    def block(self, x: int, y: int) -> bytes:
        """The 8 x 8 tile whose upper left pixel is (x, y)."""
        data = bytearray()
        for row in self.rows[y : y + 8]:
            shades = [SHADES.index(c) for c in row[x : x + 8]]
            data.append(sum((s & 1) << (7 - i) for i, s in enumerate(shades)))
            data.append(sum((s >> 1) << (7 - i) for i, s in enumerate(shades)))
        return bytes(data)


def read_drawings(path: Path) -> list[Drawing]:
    """`kind name option=value ...`, then the rows of the picture; `# ` begins a remark."""
    drawings: list[Drawing] = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("# "):
            continue
        kind = line.split(" ")[0]
        if kind in KINDS:
            _, name, *options = line.split(" ")
            drawings.append(Drawing(kind, name, dict(o.split("=", 1) for o in options)))
        else:
            drawings[-1].rows.append(line)
    for d in drawings:
        widths = {len(row) for row in d.rows}
        if len(widths) != 1 or (width := widths.pop()) % 8 or len(d.rows) % 8:
            raise SystemExit(f"{path.name}: {d.name} is not made of whole tiles: {sorted(map(len, d.rows))}")
        if set("".join(d.rows)) - set(SHADES):
            raise SystemExit(f"{path.name}: {d.name} ({width} wide) has a character outside {SHADES}")
    return drawings


def read_font(path: Path) -> dict[str, bytes]:
    """Bands of letters, `glyphs ABC` above seven rows of six columns each, to tiles: cream on dark."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("# ")]
    font = {" ": Drawing("glyph", "space", {}, ["########"] * 8).block(0, 0)}
    for i in range(0, len(lines), 8):
        letters, rows = lines[i].removeprefix("glyphs "), lines[i + 1 : i + 8]
        for n, letter in enumerate(letters):
            cells = [row[n * 6 : n * 6 + 6].replace("#", ":").replace(".", "#") for row in rows]
            drawing = Drawing("glyph", letter, {}, ["########", *(f"#{cell}#" for cell in cells)])
            font[letter] = drawing.block(0, 0)
    return font


def flipped_x(tile: bytes) -> bytes:
    return bytes(int(f"{b:08b}"[::-1], 2) for b in tile)


def flipped_y(tile: bytes) -> bytes:
    return b"".join(tile[i : i + 2] for i in range(14, -2, -2))


class TileSet:
    """Distinct tiles; a mirrored one is stored once."""

    def __init__(self) -> None:
        self.tiles: list[bytes] = []

    def add(self, tile: bytes) -> tuple[int, int]:
        """Index and flip attribute."""
        for flips, view in (
            (0, tile),
            (FLIP_X, flipped_x(tile)),
            (FLIP_Y, flipped_y(tile)),
            (FLIP_X | FLIP_Y, flipped_x(flipped_y(tile))),
        ):
            if view in self.tiles:
                return self.tiles.index(view), flips
        self.tiles.append(tile)
        return len(self.tiles) - 1, 0


@dataclass
class Metatile:
    name: str
    key: str
    number: int
    tiles: list[int]
    attributes: list[int]
    solid: int
    kind: int


def metatiles(drawings: list[Drawing], tiles: TileSet, masks: dict[str, set[int]]) -> list[Metatile]:
    """Metatiles in order; one with an edge is followed by its variants of the masks in use."""
    result: list[Metatile] = []
    for d in drawings:
        result.append(_metatile(d, len(result), tiles))
        for mask in sorted(masks.get(d.name, set()) - {0}):
            edged = Drawing(d.kind, f"{d.name}_{mask}", d.options | {"key": ""}, _edged(d, mask))
            result.append(_metatile(edged, len(result), tiles))
    return result


def _metatile(d: Drawing, number: int, tiles: TileSet) -> Metatile:
    palette = PALETTES.index(d.options["pal"])
    parts = [tiles.add(d.block(x, y)) for y in (0, 8) for x in (0, 8)]
    return Metatile(
        name=d.name,
        key=d.options.get("key", ""),
        number=number,
        tiles=[t for t, _ in parts],
        attributes=[f | palette | BANK_1 for _, f in parts],
        solid=int(d.options.get("solid", "0"), 16),
        kind=int(d.options.get("type", "0"), 16),
    )


RAGGED = (0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0)


def _edged(d: Drawing, mask: int) -> list[str]:
    """The drawing with a soft rim on the sides of the mask (1 up, 2 right, 4 down, 8 left).

    The option `edge` names three shades: of what lies outside, of the rim, and of the line within.
    """
    outside, rim, within = d.options["edge"]
    rows = []
    for y, row in enumerate(d.rows):
        line = ""
        for x, shade in enumerate(row):
            depth = _depth(y, x, mask)
            line += outside if depth < 0 else rim if depth == 0 else within if depth == 1 else shade
        rows.append(line)
    return rows


def _depth(y: int, x: int, mask: int) -> int:
    """How many pixels inside the rim (y, x) lies; corners between two rims are round."""
    sides = {1: y - 2 - RAGGED[x], 2: 13 - x - RAGGED[y], 4: 13 - y - RAGGED[x], 8: x - 2 - RAGGED[y]}
    depth = min((inside for side, inside in sides.items() if mask & side), default=15)
    for vertical, horizontal in ((1, 2), (1, 8), (4, 2), (4, 8)):
        if mask & vertical and mask & horizontal:
            down = 8 - (y if vertical == 1 else 15 - y)
            across = 8 - (x if horizontal == 8 else 15 - x)
            if down > 0 and across > 0:
                depth = min(depth, round(6.4 - (down * down + across * across) ** 0.5))
    return depth


def sprite_tiles(drawings: list[Drawing]) -> tuple[list[bytes], dict[str, int]]:
    """Tiles in the order of 8 x 16 sprites (column by column), and each drawing's first tile.

    Narrow ones come last: a 16 x 16 sprite begins at a multiple of four, where the console's code expects it.
    """
    tiles: list[bytes] = []
    first: dict[str, int] = {}
    for d in sorted(drawings, key=lambda d: len(d.rows[0]) % 16):
        first[d.name] = len(tiles)
        for y in range(0, len(d.rows), 16):
            for x in range(0, len(d.rows[0]), 8):
                tiles += [d.block(x, y), d.block(x, y + 8)]
    if len(tiles) > 256:
        raise SystemExit(f"sprites need {len(tiles)} tiles, 256 fit")
    return tiles, first


def read_palettes(path: Path) -> dict[str, list[int]]:
    """Name of a set -> 32 colours of 15 bits."""
    sets: dict[str, list[int]] = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] == "set":
            colours = sets.setdefault(words[1], [])
        else:
            colours += [_colour(word) for word in words[1:]]
    for name, colours in sets.items():
        if len(colours) != 32:
            raise SystemExit(f"palette set {name} has {len(colours)} colours, 32 are needed")
    return sets


def _colour(rgb: str) -> int:
    r, g, b = (int(rgb[i : i + 2], 16) >> 3 for i in (0, 2, 4))
    return r | g << 5 | b << 10
