"""Rooms: from drawn maps with their things to layouts and object lists."""

from dataclasses import dataclass, field
from pathlib import Path

from tools.art import Metatile

WIDTH, HEIGHT = 10, 8


@dataclass
class Room:
    group: int
    number: int
    title: str
    area: str = "outdoors"
    options: dict[str, str] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    things: list[list[str]] = field(default_factory=list)


def read_rooms(path: Path) -> list[Room]:
    """`room group:number title`, `area name option=value ...`, eight rows, then a thing a line."""
    rooms: list[Room] = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("# "):
            continue
        room = rooms[-1] if rooms else None
        if line.startswith("room "):
            _, place, title = line.split(" ", 2)
            group, number = place.split(":")
            rooms.append(Room(int(group), int(number, 16), title))
        elif room and line.startswith("area "):
            _, room.area, *options = line.split()
            room.options = dict(o.split("=", 1) for o in options)
        elif room and len(room.rows) < HEIGHT:
            if len(line) != WIDTH:
                raise SystemExit(f"{path.name}: room {room.title} has a row of {len(line)}: {line!r}")
            room.rows.append(line)
        elif room:
            room.things.append(line.split())
    return rooms


SAME = {"path": set("_5O8h"), "water": set("~i")}  # beside these a path or a pond has no rim


def masks_in_use(rooms: list[Room], keys: dict[str, str]) -> dict[str, set[int]]:
    """Of each edged metatile, the rims that the rooms need."""
    used: dict[str, set[int]] = {name: set() for name in SAME}
    for room in rooms:
        for y, row in enumerate(room.rows):
            for x, key in enumerate(row):
                if (name := keys.get(key)) in used:
                    used[name].add(_mask(room, y, x, SAME[name]))
    return used


def layout(room: Room, tiles: list[Metatile]) -> bytes:
    by_key = {t.key: t for t in tiles if t.key}
    by_name = {t.name: t.number for t in tiles}
    unknown = set("".join(room.rows)) - by_key.keys()
    if unknown or len(room.rows) != HEIGHT:
        raise SystemExit(f"room {room.title}: unknown tiles {sorted(unknown)}, {len(room.rows)} rows")
    result = bytearray()
    for y, row in enumerate(room.rows):
        for x, key in enumerate(row):
            name = by_key[key].name
            mask = _mask(room, y, x, SAME[name]) if name in SAME else 0
            result.append(by_name[f"{name}_{mask}" if mask else name])
    return bytes(result)


def _mask(room: Room, y: int, x: int, same: set[str]) -> int:
    def differs(row: int, column: int) -> bool:
        inside = 0 <= row < HEIGHT and 0 <= column < WIDTH
        return inside and room.rows[row][column] not in same

    sides = ((y - 1, x), (y, x + 1), (y + 1, x), (y, x - 1))
    return sum(1 << i for i, side in enumerate(sides) if differs(*side))


def position(word: str) -> int:
    """`column,row` to the game's (row << 4) + column."""
    column, row = map(int, word.split(","))
    return row << 4 | column
