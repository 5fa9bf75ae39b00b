"""The rooms that the stand-in's ROM has: our own layouts, a room of each mode and one for each puzzle.

Room numbers and what a puzzle room asks for are the facts; how it looks is made up.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import facts

BLOCK_FREED, CHEST_BEATEN, KEY_BEATEN, FLAG_BEATEN = 1, 2, 4, 8
CHEST_BUTTON, DOOR_BEATEN, DOOR_TORCHES, DOOR_BUTTON = 16, 32, 64, 128
"""What a room asks for, as in `src/room.h`."""

LETTERS = {
    "o": "hole", "~": "water", "!": "lava", "*": "spike", "w": "warp", "H": "ladder",
    "^": "cliff up", ">": "cliff right", "v": "cliff down", "<": "cliff left",
    "B": "block", "U": "block up", "R": "block right", "D": "block down", "L": "block left",
    "A": "block once", "I": "ice block", "P": "pot", "t": "torch", "b": "button", "s": "switch",
    "C": "chest", "S": "sign", "k": "lock", "K": "boss lock", ".": "floor",
}  # fmt: skip
SHUTTER = 0x78


@dataclass(frozen=True)
class BuiltIn:
    """A room of the ROM. `at`: row and column that its puzzle is about."""

    group: int
    room: int
    mode: int
    text: str
    puzzle: int = 0
    at: tuple[int, int] = (0, 0)
    enemies: int = 0
    hero: tuple[int, int] = (5, 4)

    @property
    def lines(self) -> list[str]:
        return self.text.split()

    def data(self) -> list[int]:
        """Head and metatiles, as `src/room.h` lays them out."""
        lines = self.lines
        dungeon = 0xFF if self.mode not in (facts.DUNGEON, facts.SIDE) else _dungeon(self.room)
        head = [
            self.group, self.room, self.mode, dungeon, int(len(lines) == 11), self.puzzle,
            self.at[0] << 4 | self.at[1], self.enemies, self.hero[0] * 16 + 8, self.hero[1] * 16 + 8, 3,
        ]  # fmt: skip
        return [*head, *(tile_of(self.mode, letter) for line in lines for letter in line)]


def tile_of(mode: int, letter: str) -> int:
    """The first metatile of the kind that a letter means."""
    if letter in "#g":
        return SHUTTER if letter == "g" else facts.PLAIN_WALL
    return facts.TILES[mode][LETTERS[letter]][0]


def _dungeon(room: int) -> int:
    return 0 if room < 0x0A else 1 if room <= 0x1C else 2


_FIELD = "########## #........# #..S.....# #........# .......... #...o~...# #........# ####..####"
_CLIFF = "####..#### #........# #.vvvvvv.# #.######.# #........# #...A....# #..w.....# ##########"
_CAVE = "########## #..s..C..# #........# #.B....P.# #........# #...S....# #........# ####ww####"
_SIDE = "########## #........# #..H#####. #..H.....# #..H..~~.# ####..###H #........H ##########"
_HALL = (
    "############### #.............# #.............# #.............# #.............# #.............#"
    " #.............# #.............# #.............# #.............# #######.#######"
)


def _hall(**letters: str) -> str:
    """A large hall with letters put in: `r3c4="B"`."""
    lines = [list(line) for line in _HALL.split()]
    for place, letter in letters.items():
        row, _, column = place[1:].partition("c")
        lines[int(row)][int(column)] = letter
    return " ".join("".join(line) for line in lines)


def _dungeon_room(room: int, text: str, puzzle: int = 0, at=(0, 0), enemies: int = 0) -> BuiltIn:
    return BuiltIn(4, room, facts.DUNGEON, text, puzzle, at, enemies, hero=(8, 7))


_UP, _LEFT, _DOWN, _RIGHT = {"r0c7": "g"}, {"r5c0": "g"}, {"r10c7": "g"}, {"r5c14": "g"}
_WALLED_CHEST = {"r1c1": "C", "r2c2": "U", "r3c1": "#"}
ROOMS = (
    BuiltIn(0, 0xA7, facts.OVERWORLD, _FIELD),
    BuiltIn(0, 0xB6, facts.OVERWORLD, _FIELD),
    BuiltIn(0, 0xB7, facts.OVERWORLD, _CAVE.replace("s", ".").replace("B", ".").replace("P", ".")),
    BuiltIn(0, 0xC6, facts.OVERWORLD, _CLIFF),
    BuiltIn(1, 0x40, facts.SUBROSIA, _FIELD.replace("~", "!")),
    BuiltIn(2, 0x0B, facts.MAKU_TREE, _FIELD.replace("o~", "..").replace("S", ".")),
    BuiltIn(3, 0x90, facts.INDOORS, _CAVE),
    BuiltIn(6, 0x09, facts.SIDE, _SIDE, hero=(1, 1)),
    _dungeon_room(0x03, _hall(r5c13="b"), CHEST_BUTTON, (5, 11)),
    _dungeon_room(0x05, _hall(r4c5="A", **_UP), BLOCK_FREED | DOOR_BEATEN, (4, 5)),
    _dungeon_room(0x07, _hall(r3c3="A"), BLOCK_FREED | FLAG_BEATEN, (3, 3), enemies=2),
    _dungeon_room(0x08, _hall(r1c4="b", **_UP), DOOR_BUTTON, (0, 7)),
    _dungeon_room(0x0B, _hall(**_LEFT), FLAG_BEATEN, enemies=2),
    _dungeon_room(0x0D, _hall(**_WALLED_CHEST)),
    _dungeon_room(0x0E, _hall(r5c4="A", **_LEFT), BLOCK_FREED | DOOR_BEATEN, (5, 4), enemies=2),
    _dungeon_room(0x11, _hall(r5c12="b"), CHEST_BUTTON, (2, 12)),
    _dungeon_room(0x12, _hall(**_RIGHT), FLAG_BEATEN, enemies=1),
    _dungeon_room(0x14, _hall(), CHEST_BEATEN, (5, 7), enemies=3),
    _dungeon_room(0x15, _hall(r3c3="t", r3c11="t", **_LEFT), DOOR_TORCHES, (5, 0)),
    _dungeon_room(0x19, _hall(**_UP), CHEST_BEATEN, (5, 7), enemies=4),
    _dungeon_room(0x1A, _hall(r3c9="A", **_UP), BLOCK_FREED | DOOR_BEATEN, (3, 9)),
    _dungeon_room(0x1B, _hall(r3c3="t", r3c11="t", **_LEFT), KEY_BEATEN, enemies=4),
    _dungeon_room(0x21, _hall(**_RIGHT), FLAG_BEATEN, enemies=1),
    _dungeon_room(0x25, _hall(**_RIGHT), DOOR_BEATEN, (5, 14), enemies=4),
    _dungeon_room(0x29, _hall(**_LEFT), FLAG_BEATEN, enemies=1),
    _dungeon_room(0x2A, _hall(), CHEST_BEATEN, (5, 11), enemies=2),
    _dungeon_room(0x2B, _hall(r2c7="C", **_LEFT), DOOR_BEATEN, (5, 0), enemies=2),
    _dungeon_room(0x2D, _hall(r5c7="C", r6c7="B")),
    _dungeon_room(0x2F, _hall(**_RIGHT), DOOR_BEATEN, (5, 14), enemies=4),
    _dungeon_room(0x30, _hall(r5c10="A", **_RIGHT), BLOCK_FREED | DOOR_BEATEN, (5, 10), enemies=3),
    _dungeon_room(0x34, _hall(**_DOWN), KEY_BEATEN, enemies=4),
    _dungeon_room(0x36, _hall(), CHEST_BEATEN, (5, 7), enemies=4),
)
