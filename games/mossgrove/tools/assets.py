"""Writes assets.h and assets.c: everything that is drawn or written in the text files."""

from pathlib import Path

from tools import art, maps, pack, text

THINGS = ["warp", "enemy", "npc", "sign", "chest", "item", "block", "button", "text"]
ENEMIES = ["slime", "beetle", "bat", "spore", "thornback", "murkroot"]
NPCS = ["elder", "child", "bellmaker", "keeper", "ware"]
TREASURES = [
    "amber", "heart", "small_key", "boss_key", "sword", "bell",
    "shield", "container", "piece", "essence", "summer", "autumn",
]  # fmt: skip
TRIGGERS = ["none", "enemies", "button", "torches", "block", "boss"]
DIRECTIONS = ["up", "right", "down", "left"]


def read_sources(here: Path) -> tuple[list[art.Drawing], list[maps.Room]]:
    """Every drawing and every room, in the order of their numbers."""
    paths = [
        path for path in sorted((here / "art").glob("*.txt")) if path.name not in ("palettes.txt", "font.txt")
    ]
    drawings = [drawing for path in paths for drawing in art.read_drawings(path)]
    return drawings, [
        room for path in sorted((here / "maps").glob("*.txt")) for room in maps.read_rooms(path)
    ]


def read_metatiles(here: Path) -> list[art.Metatile]:
    """The metatiles by their number in the room layout."""
    ground, masks = _ground(*read_sources(here))
    return art.metatiles(ground, art.TileSet(), masks)


def write(here: Path, out: Path) -> None:
    drawings, rooms = read_sources(here)
    ground, masks = _ground(drawings, rooms)
    tiles = art.TileSet()
    metatiles = art.metatiles(ground, tiles, masks)
    sprites, sprite_names = art.sprite_tiles([d for d in drawings if d.kind == "sprite"])
    letters = art.read_font(here / "art/font.txt")
    glyphs = {d.name: d.block(0, 0) for d in drawings if d.kind == "glyph"}
    icons = {d.name: [d.block(x, y) for y in (0, 8) for x in (0, 8)] for d in drawings if d.kind == "icon"}
    screen = [*letters.values(), *glyphs.values(), *(tile for parts in icons.values() for tile in parts)]
    for what, count, most in (("background", len(tiles.tiles), 256), ("screen", len(screen), 128)):
        if count > most:
            raise SystemExit(f"{what} needs {count} tiles, {most} fit")
    palettes = art.read_palettes(here / "art/palettes.txt")
    messages = text.read_messages(sorted((here / "dialog").glob("*.txt")))

    header = ["#ifndef ASSETS_H", "#define ASSETS_H", "", '#include "types.h"', ""]
    header += _enum("TILE", [m.name for m in metatiles])
    header += _enum("THING", THINGS) + _enum("ENEMY", ENEMIES) + _enum("NPC", NPCS)
    header += _enum("TREASURE", TREASURES) + _enum("TRIGGER", TRIGGERS)
    header += _enum("PALETTE", [name for name in palettes if name != "sprites"])
    header += _enum("TEXT", list(messages))
    header += [f"#define SPRITE_{name.upper()} {n}" for name, n in sprite_names.items()]
    header += [f"#define GLYPH_{name.upper()} {n}" for n, name in enumerate(glyphs, len(letters))]
    header += [
        f"#define ICON_{name.upper()} {n * 4 + len(letters) + len(glyphs)}" for n, name in enumerate(icons)
    ]
    for name, used in masks.items():
        header.append(f"#define TILE_{name.upper()}_LAST (TILE_{name.upper()} + {len(used - {0})})")
    header += [f"#define ROOMS {len(rooms)}", "", STRUCTS, "#endif"]

    source = ['#include "assets.h"', ""]
    source += _packed("ground_1", tiles.tiles[:128]) + _packed("ground_2", tiles.tiles[128:])
    source += _packed("sprites", sprites) + _packed("screen", screen)
    source += _array("metatile_tiles", bytes(t for m in metatiles for t in m.tiles))
    source += _array("metatile_attributes", bytes(a for m in metatiles for a in m.attributes))
    source += _array("metatile_solid", bytes(m.solid for m in metatiles))
    source += _array("metatile_type", bytes(m.kind for m in metatiles))
    source += _array("sprite_palettes", _words(palettes.pop("sprites")))
    source += _array("area_palettes", b"".join(_words(p) for p in palettes.values()))
    order = list(letters)
    source += _array("font", bytes(order.index(chr(c)) if chr(c) in letters else 0 for c in range(32, 128)))
    source += _messages(messages)
    source += _rooms(rooms, metatiles, list(palettes), list(messages))
    (out / "assets.h").write_text("\n".join(header) + "\n")
    (out / "assets.c").write_text("\n".join(source) + "\n")


STRUCTS = """struct thing { u8 kind, position, a, b; };
struct warp { u8 group, room, position, direction; };
struct room { u8 group, number, palette, trigger; const struct thing *things; u8 count; };

extern const u8 packed_ground_1[], packed_ground_2[], packed_screen[], packed_sprites[], packed_rooms[];
extern const u8 metatile_tiles[], metatile_attributes[], pairs[];
extern const u8 metatile_solid[], metatile_type[], sprite_palettes[], area_palettes[], font[];
extern const u8 *const messages[];
extern const struct room rooms[];
extern const struct warp warps[];

void unpack(u8 *to, const u8 *from);
void unpack_rooms(void);
void fetch(const u8 *room);
"""


def _ground(
    drawings: list[art.Drawing], rooms: list[maps.Room]
) -> tuple[list[art.Drawing], dict[str, set[int]]]:
    ground = [d for d in drawings if d.kind == "tile"]
    return ground, maps.masks_in_use(rooms, {d.options["key"]: d.name for d in ground if "key" in d.options})


def _rooms(
    rooms: list[maps.Room], tiles: list[art.Metatile], palettes: list[str], messages: list[str]
) -> list[str]:
    warps: list[tuple[int, ...]] = []
    lines: list[str] = []
    records = []
    for i, room in enumerate(rooms):
        things = []
        for words in room.things:
            kind, where, *rest = words
            place = maps.position(where)
            if kind == "warp":  # warp 4,2 to 3:00 5,7 up
                group, number = rest[1].split(":")
                goal = (int(group), int(number, 16), maps.position(rest[2]), DIRECTIONS.index(rest[3]))
                if goal not in warps:
                    warps.append(goal)
                things.append((THINGS.index(kind), place, warps.index(goal), 0))
            else:
                a = _number(rest[0], messages) if rest else 0
                b = _number(rest[1], messages) if len(rest) > 1 else 0
                things.append((THINGS.index(kind), place, a, b))
        name = "0"
        if things:
            name = f"things_{i}"
            body = _records(things)
            lines.append(f"static const struct thing {name}[] = {{{body}}};")
        palette = palettes.index("spring" if room.area == "outdoors" else room.area)
        trigger = TRIGGERS.index(room.options.get("trigger", "none"))
        records.append(f"    {{{room.group}, {room.number}, {palette}, {trigger}, {name}, {len(things)}}},")
    lines += ["const struct room rooms[] = {", *records, "};"]
    lines += _packed("rooms", [maps.layout(room, tiles) for room in rooms])
    body = _records(warps) or "{0, 0, 0, 0}"
    return [*lines, f"const struct warp warps[] = {{{body}}};"]


def _records(rows: list[tuple[int, ...]]) -> str:
    return ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)


def _number(word: str, messages: list[str]) -> int:
    for names in (ENEMIES, NPCS, TREASURES, DIRECTIONS, messages):
        if word in names:
            return names.index(word)
    return int(word, 0)


def _messages(messages: dict[str, bytes]) -> list[str]:
    lines = []
    packed, pairs = pack.pack_texts(list(messages.values()))
    for i, data in enumerate(packed):
        lines += _array(f"message_{i}", data, static=True)
    names = ", ".join(f"message_{i}" for i in range(len(messages))) or "0"
    lines += _array("pairs", bytes(half for pair in pairs for half in pair))
    return [*lines, f"const u8 *const messages[] = {{{names}}};"]


def _enum(prefix: str, names: list[str]) -> list[str]:
    return [f"#define {prefix}_{name.upper()} {i}" for i, name in enumerate(names)]


def _array(name: str, data: bytes, static: bool = False) -> list[str]:
    lines = [f"{'static ' if static else ''}const u8 {name}[] = {{"]
    lines += ["    " + ", ".join(map(str, data[i : i + 24])) + "," for i in range(0, len(data), 24)]
    return [*lines, "};"]


def _packed(name: str, parts: list[bytes]) -> list[str]:
    return _array(f"packed_{name}", pack.pack(b"".join(parts)))


def _words(values: list[int]) -> bytes:
    return b"".join(v.to_bytes(2, "little") for v in values)
