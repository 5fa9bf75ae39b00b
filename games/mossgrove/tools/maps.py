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


def layout(room: Room, tiles: list[Metatile]) -> bytes:
    by_key = {t.key: t.number for t in tiles if t.key}
    unknown = set("".join(room.rows)) - by_key.keys()
    if unknown or len(room.rows) != HEIGHT:
        raise SystemExit(f"room {room.title}: unknown tiles {sorted(unknown)}, {len(room.rows)} rows")
    return bytes(by_key[c] for row in room.rows for c in row)


def position(word: str) -> int:
    """`column,row` to the game's (row << 4) + column."""
    column, row = map(int, word.split(","))
    return row << 4 | column
