"""The terrain of Oracle of Seasons (USA) by collision mode, and its puzzle rooms.

Facts from a public disassembly (Stewmath/oracles-disasm: tile properties, room objects, dungeon scripts),
tested on a stand-in of our own (`games/standin`) and on no ROM of the game.
"""

from __future__ import annotations

from dataclasses import replace

from questloop.game.terrain import DOWN, LEFT, RIGHT, UP, Block, PuzzleRoom, Riddle, Terrain

OVERWORLD, SUBROSIA, MAKU_TREE, INDOORS, DUNGEON, SIDE = range(6)
"""Collision modes, `active_collisions`."""

_TAKEN, _BEATEN = 0x20, 0x80
"""Room flags: the chest is open or the item taken; the boss is beaten or the stairs have appeared."""


def _one_way(way: int) -> Block:
    return Block(frozenset((way,)), once=True)


_OVERWORLD = Terrain(
    floor=frozenset({0x04, 0xF8, 0xF9, 0xD0, 0xDD, 0xDE, 0xDF}),
    pits=frozenset({0xF3, 0xF4}),
    water=frozenset({0xFD, 0xFE, 0xFF, 0xD1, 0xD2, 0xD3, 0xD4}),
    lava=frozenset(range(0x7B, 0x80)),
    ledges_up=frozenset({0x2A}),
    ledges_right=frozenset({0x26, 0x28}),
    ledges_down=frozenset({0x54, 0x94, 0x95, 0x9A, *range(0xCC, 0xD0)}),
    ledges_left=frozenset({0x25, 0x27}),
    pushable={0xD6: Block(once=True)},
    block_groups=frozenset({0, 1}),
    chests=frozenset({0xF1}),
    signs=frozenset({0xF2}),
    doors=frozenset({*range(0xE6, 0xEC), *range(0xED, 0xF0)}),
    deep_ledges=True,
)
_SUBROSIA = Terrain(
    floor=frozenset({0xF8, 0xF9, 0xD0, 0xD1}),
    pits=frozenset({0xF3, 0xF4}),
    lava=frozenset({*range(0x7B, 0x80), *range(0xC0, 0xD0)}),
    ledges_down=frozenset({0x54, 0xEA, 0xEB}),
    chests=frozenset({0xF1}),
    signs=frozenset({0xF2}),
    doors=frozenset({0xE6, 0xE7, 0xE8, 0xED, 0xEE, 0xEF}),
    locks=frozenset({0xEC}),
    deep_ledges=True,
)
_MAKU_TREE = Terrain(
    floor=frozenset({0xD0, 0xDD, 0xDE, 0xDF}),
    doors=frozenset({0xE8, 0xEA, 0xEB, 0xEC, 0xED}),
    deep_ledges=True,
)
_DUNGEON = Terrain(
    floor=frozenset({0xA0, *range(0x50, 0x54), 0x8C, 0x8D}),
    pits=frozenset({*range(0xF3, 0xF8), 0xD0, 0x3F}),
    water=frozenset({0xFD}),
    lava=frozenset(range(0x61, 0x66)),
    spikes=frozenset({0x60}),
    ledges_up=frozenset({0xB2, 0x05}),
    ledges_right=frozenset({0xB3}),
    ledges_down=frozenset({0xB0, 0x06}),
    ledges_left=frozenset({0xB1}),
    blocks=frozenset({0x25, 0x2A, 0x2C, 0x2D}),
    pushable={
        0x18: _one_way(UP),
        0x19: _one_way(RIGHT),
        0x1A: _one_way(DOWN),
        0x1B: _one_way(LEFT),
        0x1C: Block(once=True),
        0x2F: Block(slides=True),
        **dict.fromkeys(range(0x10, 0x14), Block(needs="bracelet")),
    },
    block_groups=frozenset({3, 4, 5}),
    buttons=frozenset({0x0C}),
    switches=frozenset({0x0A, 0x0B}),
    torches=frozenset({0x08}),
    chests=frozenset({0xF1}),
    signs=frozenset({0xF2}),
    doors=frozenset({*range(0x44, 0x48), *range(0x48, 0x4C), 0x4F}),
    locks=frozenset({*range(0x70, 0x74), 0x1E}),
    boss_locks=frozenset(range(0x74, 0x78)),
    deep_ledges=True,
)
_INDOORS = replace(_DUNGEON, doors=_DUNGEON.doors | {0x34, 0x36})
_SIDE = Terrain(
    pits=frozenset({0xF4, 0x0F}),
    water=frozenset(range(0x1B, 0x20)),
    lava=frozenset({0x0C, 0x0D, 0x0E}),
    ladders=frozenset({0x16, 0x17, 0x18, 0x19, 0x1A}),
    block_groups=frozenset(),
    gravity=True,
)


PUZZLES = {
    # Hero's Cave
    (4, 0x03): PuzzleRoom(Riddle.BUTTON, _TAKEN, opens="a chest"),
    (4, 0x05): PuzzleRoom(Riddle.PUSH, at=(4, 5), opens="the doors up, down and left"),
    (4, 0x07): PuzzleRoom(Riddle.PUSH, _BEATEN, at=(3, 3), opens="stairs"),
    (4, 0x08): PuzzleRoom(Riddle.BUTTON, opens="the door up"),
    # Gnarled Root Dungeon
    (4, 0x0B): PuzzleRoom(
        Riddle.ENEMIES, _BEATEN, opens="the doors left and down, a portal"
    ),  # Goriya brothers
    (4, 0x0D): PuzzleRoom(Riddle.CHEST, _TAKEN, opens="what the chest holds"),
    (4, 0x0E): PuzzleRoom(Riddle.PUSH, at=(5, 4), opens="the door left"),
    (4, 0x11): PuzzleRoom(Riddle.BUTTON, _TAKEN, opens="a chest"),
    (4, 0x12): PuzzleRoom(
        Riddle.ENEMIES, _BEATEN, opens="the essence's room, a heart container"
    ),  # Aquamentus
    (4, 0x14): PuzzleRoom(Riddle.ENEMIES, _TAKEN, opens="the chest of the boss key"),
    (4, 0x15): PuzzleRoom(Riddle.TORCHES, torches=2, needs="satchel", opens="the door left"),
    (4, 0x19): PuzzleRoom(Riddle.ENEMIES, _TAKEN, opens="a chest, the doors up and right"),
    (4, 0x1A): PuzzleRoom(Riddle.PUSH, at=(3, 9), opens="the doors up, right and down"),
    (4, 0x1B): PuzzleRoom(
        Riddle.ENEMIES, _TAKEN, opens="a small key and the door left; two torches open the door up"
    ),
    # Snake's Remains
    (4, 0x21): PuzzleRoom(Riddle.ENEMIES, _BEATEN, opens="the doors up and right, a portal"),  # Facade
    (4, 0x25): PuzzleRoom(Riddle.ENEMIES, opens="the door right"),
    (4, 0x29): PuzzleRoom(Riddle.ENEMIES, _BEATEN, opens="the essence's room, a heart container"),  # Dodongo
    (4, 0x2A): PuzzleRoom(Riddle.ENEMIES, _TAKEN, opens="the chest of the power bracelet"),
    (4, 0x2B): PuzzleRoom(Riddle.ENEMIES, opens="the door left"),
    (4, 0x2D): PuzzleRoom(Riddle.CHEST, _TAKEN, opens="a small key, for 28 seconds"),
    (4, 0x2F): PuzzleRoom(Riddle.ENEMIES, opens="the doors right and down"),
    (4, 0x30): PuzzleRoom(Riddle.PUSH, at=(5, 10), opens="the door right"),
    (4, 0x34): PuzzleRoom(Riddle.ENEMIES, _TAKEN, opens="a small key, the door down"),
    (4, 0x36): PuzzleRoom(Riddle.ENEMIES, _TAKEN, opens="the chest of the compass; then a block to push"),
}
"""Those of the first three dungeons, by group and room, as their room objects and scripts have them."""

TERRAIN = Terrain(
    feet=5,
    chests_from_below=True,
    modes={
        OVERWORLD: _OVERWORLD,
        SUBROSIA: _SUBROSIA,
        MAKU_TREE: _MAKU_TREE,
        INDOORS: _INDOORS,
        DUNGEON: _DUNGEON,
        SIDE: _SIDE,
    },
    puzzles=PUZZLES,
    blade_numbers=frozenset({0x05}),
    fire_numbers=frozenset({0x19}),
)
