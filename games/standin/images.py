"""Memory images: what the game's work RAM holds in a room, built from facts.

An image is `{address: byte}`, `(bank, address)` for banked work RAM, and is read as PyBoy's memory view is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import facts
from .rules import Place, Rules

STRIDE = 16
SMALL, LARGE = (8, 10), (11, 15)
IN_PLAY = {
    0xC2EE: 2,
    0xC2EF: 1,
    0xCD00: 1,
    0xCC48: 0xD0,
    0xCC55: 0xFF,
    0xCC80: 0xFF,
    0xC6A2: 12,
    0xC6A3: 12,
    (1, 0xD000): 1,
    (1, 0xD004): 1,
}
"""A hero in control, with three hearts."""


@dataclass
class Image:
    """Bytes by address; what was never set is 0."""

    bytes: dict[int | tuple[int, int], int] = field(default_factory=lambda: dict(IN_PLAY))

    def __getitem__(self, key):
        if isinstance(key, tuple) and isinstance(key[1], slice):
            return [self[key[0], at] for at in range(key[1].start, key[1].stop)]
        return self.bytes.get(key, 0)

    def look(self, layout) -> dict[str, bytes]:
        """The bytes of each tap, as `Emulator.look` gives them."""
        row = bytearray(layout.size)
        layout.read(self, memoryview(row))
        return {name: bytes(row[layout.offset(name)]) for name in layout.names}


def image(rules: Rules, hero: Place, room: int = 0x40, **more: int | str) -> Image:
    """A room in memory, the hero in the middle of a metatile.

    `more`: bytes by address, as in `CC30=2` or `CC30="02"`.
    """
    made = Image()
    large = len(rules.tiles) == LARGE[0]
    put = made.bytes
    put |= {0xCC49: rules.group, 0xCC4A: int(large), 0xCC4B: room, 0xCC4C: room, 0xCC4F: rules.mode}
    if rules.mode in (facts.DUNGEON, facts.SIDE):
        put[0xCC55] = 1
    if rules.bracelet:
        put[0xC692 + 2] = 1 << 6
    put[1, 0xD00B], put[1, 0xD00D] = hero[0] * 16 + 8, hero[1] * 16 + 8
    put |= {0xCE00 + at: 0xFF for at in range(0xB0)}  # the edge of the screen
    for row, (tiles, collisions) in enumerate(zip(rules.tiles, rules.collisions, strict=True)):
        for column, (tile, collision) in enumerate(zip(tiles, collisions, strict=True)):
            put[0xCF00 + STRIDE * row + column] = tile
            put[0xCE00 + STRIDE * row + column] = collision
    set_by_hand = {int(at, 16): int(byte, 16) if isinstance(byte, str) else byte for at, byte in more.items()}
    return Image(put | set_by_hand)


def random_rules(rng: random.Random, mode: int) -> Rules:
    """A room of every kind of metatile that the mode knows, floor and walls above all."""
    rows, columns = LARGE if mode == facts.DUNGEON and rng.random() < 0.2 else SMALL
    kinds = sorted(facts.TILES[mode])
    blocks = (3, 4, 5) if mode in (facts.INDOORS, facts.DUNGEON) else (facts.GROUP_OF_MODE[mode],)
    group = rng.choice((*blocks, facts.GROUP_OF_MODE[mode], 2))

    floors, walls, ladders = (0.45, 0.3, 0.2) if mode == facts.SIDE else (0.55, 0.15, 0)

    def metatile() -> tuple[int, int]:
        draw = rng.random()
        if draw < floors:
            return rng.choice(facts.TILES[mode]["floor"]), rng.choice((0, 0, 0, 0x18, 0x11, 0x17, 0x1F))
        if draw < floors + walls:
            return facts.PLAIN_WALL, rng.choice((0x0F, 0x03, 0x0C, 0x1E, 0xFF))
        if draw < floors + walls + ladders:
            return rng.choice(facts.TILES[mode]["ladder"]), 0
        tile = rng.choice(facts.TILES[mode][rng.choice(kinds)])
        return tile, facts.usual_collision(mode, tile)

    cells = [[metatile() for _ in range(columns)] for _ in range(rows)]
    return Rules(
        mode,
        group,
        tuple(tuple(tile for tile, _ in row) for row in cells),
        tuple(tuple(collision for _, collision in row) for row in cells),
        bracelet=rng.random() < 0.5,
    )


def random_puzzle(rng: random.Random, mode: int, kinds: tuple[str, ...], count: int) -> tuple[Rules, Place]:
    """A chamber of 4 x 5 metatiles with walls around and blocks of these kinds; and the hero."""
    rows, columns = SMALL
    floor = facts.TILES[mode]["floor"][0]
    tiles = [[facts.PLAIN_WALL] * columns for _ in range(rows)]
    inner = [(row, column) for row in range(2, 6) for column in range(3, 8)]
    for row, column in inner:
        tiles[row][column] = floor if rng.random() < 0.85 else facts.PLAIN_WALL
    open_places = [place for place in inner if tiles[place[0]][place[1]] == floor]
    if len(open_places) <= count + 1:
        return random_puzzle(rng, mode, kinds, count)
    hero, *places = rng.sample(open_places, count + 1)
    for row, column in places:
        tiles[row][column] = rng.choice(facts.TILES[mode][rng.choice(kinds)])
    return (
        Rules(
            mode,
            facts.GROUP_OF_MODE[mode],
            tuple(map(tuple, tiles)),
            tuple(tuple(facts.usual_collision(mode, tile) for tile in row) for row in tiles),
            bracelet=True,
        ),
        hero,
    )


def places(rules: Rules) -> Iterator[Place]:
    """Every place of a room."""
    yield from ((row, column) for row in range(len(rules.tiles)) for column in range(len(rules.tiles[0])))
