"""Writes assets.h and assets.c: everything that is drawn or written in the text files."""

from pathlib import Path

from tools import art, maps, text

THINGS = ["warp", "enemy", "npc", "sign", "chest", "item", "block", "button", "text"]
ENEMIES = ["slime", "beetle", "bat", "spore", "thornback", "boss"]
NPCS = ["elder", "child", "bellmaker", "keeper", "fox", "ware"]
TREASURES = [
    "amber", "heart", "small_key", "boss_key", "sword", "bell",
    "shield", "container", "piece", "essence", "summer", "autumn",
]  # fmt: skip
TRIGGERS = ["none", "enemies", "button", "torches", "block", "boss"]
DIRECTIONS = ["up", "right", "down", "left"]


def write(here: Path, out: Path) -> None:
    tiles = art.TileSet()
    drawings = [d for path in sorted((here / "art").glob("*.txt")) if path.name not in ("palettes.txt",)
                for d in art.read_drawings(path)]  # fmt: skip
    metatiles = art.metatiles([d for d in drawings if d.kind == "tile"], tiles)
    sprites, sprite_names = art.sprite_tiles([d for d in drawings if d.kind == "sprite"])
    glyphs = [d for d in drawings if d.kind == "glyph"]
    font = {d.name: len(tiles.tiles) + i for i, d in enumerate(glyphs)}
    background = tiles.tiles + [d.block(0, 0) for d in glyphs]
    if len(background) > 256:
        raise SystemExit(f"background needs {len(background)} tiles, 256 fit")
    palettes = art.read_palettes(here / "art/palettes.txt")
    messages = text.read_messages(sorted((here / "dialog").glob("*.txt")))
    rooms = [room for path in sorted((here / "maps").glob("*.txt")) for room in maps.read_rooms(path)]

    header = ["#ifndef ASSETS_H", "#define ASSETS_H", "", '#include "types.h"', ""]
    header += _enum("TILE", [m.name for m in metatiles])
    header += _enum("THING", THINGS) + _enum("ENEMY", ENEMIES) + _enum("NPC", NPCS)
    header += _enum("TREASURE", TREASURES) + _enum("TRIGGER", TRIGGERS)
    header += _enum("PALETTE", [name for name in palettes if name != "sprites"])
    header += _enum("TEXT", list(messages))
    header += [f"#define SPRITE_{name.upper()} {n}" for name, n in sprite_names.items()]
    header += [f"#define GLYPH_{_glyph(name)} {n}" for name, n in font.items()]
    header += [f"#define ROOMS {len(rooms)}", f"#define BACKGROUND_TILES {len(background)}"]
    header += [f"#define SPRITE_TILES {len(sprites)}", "", STRUCTS, "#endif"]

    source = ['#include "assets.h"', ""]
    source += _array("background_tiles", b"".join(background)) + _array("sprite_tiles", b"".join(sprites))
    source += _array("metatile_tiles", bytes(t for m in metatiles for t in m.tiles))
    source += _array("metatile_attributes", bytes(a for m in metatiles for a in m.attributes))
    source += _array("metatile_solid", bytes(m.solid for m in metatiles))
    source += _array("metatile_type", bytes(m.kind for m in metatiles))
    source += _array("sprite_palettes", _words(palettes.pop("sprites")))
    source += _array("area_palettes", b"".join(_words(p) for p in palettes.values()))
    source += _array("font", bytes(font.get(chr(c), font.get("space", 0)) for c in range(32, 128)))
    source += _messages(messages)
    source += _rooms(rooms, metatiles, list(palettes), list(messages))
    (out / "assets.h").write_text("\n".join(header) + "\n")
    (out / "assets.c").write_text("\n".join(source) + "\n")


STRUCTS = """struct thing { u8 kind, position, a, b; };
struct warp { u8 group, room, position, direction; };
struct room { u8 group, number, palette, trigger; const struct thing *things; u8 count; };

extern const u8 background_tiles[], sprite_tiles[], metatile_tiles[], metatile_attributes[];
extern const u8 metatile_solid[], metatile_type[], sprite_palettes[], area_palettes[], font[];
extern const u8 *const messages[];
extern const struct room rooms[];
extern const u8 room_layouts[];
extern const struct warp warps[];
"""


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
    lines += _array("room_layouts", b"".join(maps.layout(room, tiles) for room in rooms))
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
    for i, data in enumerate(messages.values()):
        lines += _array(f"message_{i}", data, static=True)
    names = ", ".join(f"message_{i}" for i in range(len(messages))) or "0"
    return [*lines, f"const u8 *const messages[] = {{{names}}};"]


def _glyph(name: str) -> str:
    return name.upper() if name.isidentifier() and len(name) > 1 else f"{ord(name[0]):02X}"


def _enum(prefix: str, names: list[str]) -> list[str]:
    return [f"#define {prefix}_{name.upper()} {i}" for i, name in enumerate(names)]


def _array(name: str, data: bytes, static: bool = False) -> list[str]:
    lines = [f"{'static ' if static else ''}const u8 {name}[] = {{"]
    lines += ["    " + ", ".join(map(str, data[i : i + 24])) + "," for i in range(0, len(data), 24)]
    return [*lines, "};"]


def _words(values: list[int]) -> bytes:
    return b"".join(v.to_bytes(2, "little") for v in values)
