"""Metatiles of each collision mode by what they are, and what collision bytes mean: the stand-in's own list.

Written from public facts, apart from the profile, so that one can be compared with the other.
"""

from __future__ import annotations

from functools import cache

OVERWORLD, SUBROSIA, MAKU_TREE, INDOORS, DUNGEON, SIDE = range(6)
MODES = ("overworld", "subrosia", "maku tree", "indoors", "dungeon", "side-scrolling")
GROUP_OF_MODE = (0, 1, 2, 3, 4, 6)
"""A group of rooms in which the mode is usual."""

PLAIN_FLOOR = 0xA0
PLAIN_WALL = 0x80
"""A number that no table names: what it is, collisions say."""

_INSIDE = {
    "hole": (0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xD0, 0x3F),
    "warp": (0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x4B, 0x4F),
    "lava": (0x61, 0x62, 0x63, 0x64, 0x65),
    "spike": (0x60,),
    "water": (0xFD,),
    "cliff down": (0xB0, 0x06),
    "cliff left": (0xB1,),
    "cliff up": (0xB2, 0x05),
    "cliff right": (0xB3,),
    "block": (0x2A, 0x2C, 0x2D, 0x25),
    "block up": (0x18,),
    "block right": (0x19,),
    "block down": (0x1A,),
    "block left": (0x1B,),
    "block once": (0x1C,),
    "ice block": (0x2F,),
    "pot": (0x10, 0x11, 0x12, 0x13),
    "torch": (0x08,),
    "lit torch": (0x09,),
    "button": (0x0C,),
    "pressed button": (0x0D,),
    "switch": (0x0A, 0x0B),
    "chest": (0xF1,),
    "open chest": (0xF0,),
    "sign": (0xF2,),
    "lock": (0x70, 0x71, 0x72, 0x73, 0x1E),
    "boss lock": (0x74, 0x75, 0x76, 0x77),
    "floor": (0xA0, 0x50, 0x51, 0x52, 0x53, 0x4D, 0x8C, 0x8D),
}
TILES: tuple[dict[str, tuple[int, ...]], ...] = (
    {
        "hole": (0xF3, 0xF4),
        "lava": (0x7B, 0x7C, 0x7D, 0x7E, 0x7F),
        "water": (0xFD, 0xFE, 0xFF, 0xD1, 0xD2, 0xD3, 0xD4),
        "cliff down": (0x54, 0x94, 0x95, 0x9A, 0xCC, 0xCD, 0xCE, 0xCF),
        "cliff left": (0x25, 0x27),
        "cliff right": (0x26, 0x28),
        "cliff up": (0x2A,),
        "block once": (0xD6,),
        "warp": (0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xEB, 0xED, 0xEE, 0xEF),
        "chest": (0xF1,),
        "sign": (0xF2,),
        "floor": (0x04, 0xD0, 0xF8, 0xF9, 0xFA, 0xDC),
    },
    {
        "hole": (0xF3, 0xF4),
        "lava": (0x7B, 0x7C, 0x7D, 0x7E, 0x7F, *range(0xC0, 0xD0)),
        "cliff down": (0xEA, 0xEB, 0x54),
        "warp": (0xE6, 0xE7, 0xE8, 0xED, 0xEE, 0xEF),
        "chest": (0xF1,),
        "sign": (0xF2,),
        "lock": (0xEC,),
        "floor": (0xD0, 0xD1, 0xF8, 0xFA),
    },
    {"warp": (0xE8, 0xEA, 0xEB, 0xEC, 0xED), "floor": (0xD0, 0xDD, 0xDE, 0xDF)},
    _INSIDE | {"warp": (*_INSIDE["warp"], 0x34, 0x36)},
    _INSIDE,
    {
        "ladder": (0x16, 0x17, 0x18, 0x19, 0x1A),
        "water": (0x1B, 0x1C, 0x1D, 0x1E, 0x1F),
        "hole": (0xF4, 0x0F),
        "lava": (0x0C, 0x0D, 0x0E),
        "floor": (0x02,),
    },
)
"""By mode."""

AFTER_PUSH = {
    **dict.fromkeys((0x18, 0x19, 0x1A, 0x1B, 0x1C), (0xA0, 0x1D)),
    **{tile: (0xA0, tile) for tile in (0x2A, 0x2C, 0x2D, 0x25)},
    0x2F: (0x8C, 0x2F),
    **dict.fromkeys((0x10, 0x11, 0x12), (0xA0, 0x10)),
    0x13: (0x0D, 0x10),
    0xD6: (0x04, 0x9C),
}
"""What a pushed metatile leaves and what it becomes."""

SOLID_KINDS = (
    "cliff",
    "block",
    "ice block",
    "pot",
    "torch",
    "lit torch",
    "switch",
    "chest",
    "open chest",
    "sign",
)
SOLID_KINDS += ("lock", "boss lock")
HAZARDS = ("hole", "lava", "water")
HAZARD_COLLISION = 0x10
STRIPS = (0x00, 0xC3, 0x03, 0xC0, 0x00, 0xC3, 0xC3, 0x00, 0x00, 0xC3, 0x03, 0xC0, 0xC0, 0xC1, 0xFF, 0x00)
"""Collision bytes 10-1F: which of eight strips of two pixels are solid; columns, from 18 on rows."""


@cache
def kind_of(mode: int, tile: int) -> str:
    """What a metatile is; empty where no table names it."""
    return next((kind for kind, tiles in TILES[mode].items() if tile in tiles), "")


def passable(collision: int) -> bool:
    """Whether the middle of a metatile with this collision byte lets a hero through."""
    if collision < 0x10:
        return collision == 0
    if collision < 0x20:
        return STRIPS[collision - 0x10] & 0x3C == 0
    return False


def usual_collision(mode: int, tile: int) -> int:
    """The collision byte that the stand-in gives a metatile."""
    kind = kind_of(mode, tile)
    if kind in HAZARDS:
        return HAZARD_COLLISION
    if mode in (INDOORS, DUNGEON) and tile in range(0x50, 0x54):
        return 0x18  # stairs
    return 0x0F if kind.startswith(SOLID_KINDS) or kind == "" else 0
