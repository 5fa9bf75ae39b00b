"""Pictures of a run as PNG: maps of the rooms with the steps spent in each, and filmstrips of segments."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

ROOM_WIDTH, ROOM_HEIGHT = 160, 128
OVERWORLD = 0
_UNSEEN = (38, 42, 50)
_HEAT = (255, 122, 26)
_DARK, _LIGHT = (20, 22, 27), (236, 238, 241)
_BAR = 9  # pixels

_MOST_LETTERS = 26

Room = tuple[int, int]  # group, room
_NO_NAMES: Mapping[Room, str] = {}


def overworld_map(
    visits: Mapping[Room, int],
    pictures: Mapping[Room, bytes],
    room_top: int,
    names: Mapping[Room, str] = _NO_NAMES,
) -> bytes | None:
    """Rooms of group 0 laid out by the nibbles of their number (row high, column low), with their visits.

    `room_top`: first pixel row of the room in a picture; `names`: of rooms that have one. Returns PNG bytes,
    or None where none was visited.
    """
    rooms = sorted(room for (group, room), count in visits.items() if group == OVERWORLD and count > 0)
    if not rooms:
        return None
    rows, columns = [room >> 4 for room in rooms], [room & 15 for room in rooms]
    places = {room: ((room & 15) - min(columns), (room >> 4) - min(rows)) for room in rooms}
    return _tile_rooms(
        {(OVERWORLD, room): place for room, place in places.items()},
        (max(columns) - min(columns) + 1, max(rows) - min(rows) + 1),
        visits,
        pictures,
        room_top,
        names,
    )


def interior_map(
    visits: Mapping[Room, int],
    pictures: Mapping[Room, bytes],
    room_top: int,
    names: Mapping[Room, str] = _NO_NAMES,
) -> bytes | None:
    """Rooms of every group but 0, in numerical order, eight to a row. PNG bytes or None."""
    rooms = sorted(key for key, count in visits.items() if key[0] != OVERWORLD and count > 0)
    if not rooms:
        return None
    width = min(8, len(rooms))
    places = {room: (index % width, index // width) for index, room in enumerate(rooms)}
    return _tile_rooms(places, (width, math.ceil(len(rooms) / width)), visits, pictures, room_top, names)


def filmstrip(frames: Sequence[tuple[int, bytes]], most: int = 6) -> bytes | None:
    """At most `most` frames, evenly chosen, first and last among them, each labelled with its step."""
    if not frames:
        return None
    chosen = [frames[i] for i in np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))]
    strip = Image.new("RGB", (len(chosen) * (ROOM_WIDTH + 4) - 4, 144 + 16), _DARK)
    draw = ImageDraw.Draw(strip)
    for index, (step, data) in enumerate(chosen):
        left = index * (ROOM_WIDTH + 4)
        strip.paste(_open(data), (left, 16))
        draw.text((left + 3, 0), f"step {step}", fill=_LIGHT, font_size=13)
    return _png(strip)


def _tile_rooms(
    places: Mapping[Room, tuple[int, int]],
    size: tuple[int, int],
    visits: Mapping[Room, int],
    pictures: Mapping[Room, bytes],
    room_top: int,
    names: Mapping[Room, str],
) -> bytes:
    canvas = Image.new("RGB", (size[0] * ROOM_WIDTH, size[1] * ROOM_HEIGHT), _UNSEEN)
    draw = ImageDraw.Draw(canvas)
    most = max(visits[room] for room in places)
    for room, (column, row) in places.items():
        left, top = column * ROOM_WIDTH, row * ROOM_HEIGHT
        if room in pictures:
            picture = _open(pictures[room]).crop((0, room_top, ROOM_WIDTH, room_top + ROOM_HEIGHT))
            canvas.paste(picture, (left, top))
        # a logarithm, since the first room sees a thousand times the visits of the last
        heat = math.log1p(visits[room]) / math.log1p(most)
        bar_top = top + ROOM_HEIGHT - _BAR
        draw.rectangle((left, bar_top, left + ROOM_WIDTH - 1, top + ROOM_HEIGHT - 1), fill=_DARK)
        draw.rectangle((left, bar_top + 2, left + heat * (ROOM_WIDTH - 1), top + ROOM_HEIGHT - 1), fill=_HEAT)
        name = names.get(room, f"room {room[0]}:{room[1]:02x}")[:_MOST_LETTERS]
        draw.rectangle((left, top, left + ROOM_WIDTH - 1, top + 29), fill=_DARK)
        draw.text((left + 5, top), name, fill=_LIGHT, font_size=12)
        draw.text((left + 5, top + 15), f"{visits[room]:,} steps", fill=_LIGHT, font_size=11)
        draw.rectangle((left, top, left + ROOM_WIDTH - 1, top + ROOM_HEIGHT - 1), outline=_DARK)
    return _png(canvas)


def _open(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
