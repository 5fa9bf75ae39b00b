"""What a game's rooms are made of, as data: what a planner needs beyond collisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

UP, RIGHT, DOWN, LEFT = range(4)
"""Ways on the map, in the order of a game's directions (`game.state.Facing`)."""

LAYOUT_TAP, MODE_TAP = "room_layout", "active_collisions"
"""Taps of a profile's `details`: the numbers of a room's metatiles, row by row, and its collision mode."""


class Riddle(StrEnum):
    """What a puzzle room asks for."""

    BLOCK = "block"  # a block on a plate
    PUSH = "push"  # one certain block pushed out of its place
    CHEST = "chest"  # a closed chest, to be walked up to; blocks may bar the way
    BUTTON = "button"  # a button stepped on
    TORCHES = "torches"  # every torch lit
    ENEMIES = "enemies"  # every enemy beaten

    @property
    def needs_blade(self) -> bool:
        """Whether nobody without a sword can solve it, unless the room names another item."""
        return self in (Riddle.TORCHES, Riddle.ENEMIES)


@dataclass(frozen=True)
class PuzzleRoom:
    """A room with a riddle.

    It is solved once `room_flags & solved` is not 0. With `solved` 0 the game keeps no flag of it: then it is
    solved while the room's own counter says so, which is the buttons pressed for `BUTTON`, `torches` lit for
    `TORCHES`, and no enemy left that counts for every other riddle (the Oracle games count a block that is to
    be pushed among the enemies).
    """

    riddle: Riddle
    solved: int = 0
    at: tuple[int, int] | None = None
    """Row and column of the block that `PUSH` asks for."""
    torches: int = 0
    """How many are to be lit."""
    needs: str = ""
    """The profile's item without which it cannot be solved; empty: the blade where `riddle.needs_blade`."""
    opens: str = ""
    """What solving it gives, for readers."""

    def is_solved(self, room_flags: int, enemies: int, triggers: int, torches: int) -> bool:
        """Whether it is solved, from the columns of these names."""
        if self.solved:
            return bool(room_flags & self.solved)
        if self.riddle is Riddle.BUTTON:
            return bool(triggers)
        if self.riddle is Riddle.TORCHES:
            return torches >= self.torches
        return not enemies


@dataclass(frozen=True)
class Block:
    """How a metatile that can be pushed moves: one cell towards one of `ways` (see `UP`).

    `once`: it stays for good where the first push put it. `slides`: it goes on until something stops it.
    `needs`: the profile's item without which it does not move.
    """

    ways: frozenset[int] = frozenset((UP, RIGHT, DOWN, LEFT))
    once: bool = False
    slides: bool = False
    needs: str = ""


@dataclass(frozen=True)
class Terrain:
    """Kinds of metatiles by their number in the room layout (the tap `room_layout`), and the puzzle rooms.

    Where a number means different things in different rooms, `modes` has a terrain for each value of the
    detail tap `active_collisions`; it gives the kinds of metatiles there, and this one the rest: `feet`,
    `chests_from_below`, `puzzles` and the numbers of items.
    """

    feet: int = 0
    """Pixels below the hero's position of the point that decides which metatile is underfoot."""
    floor: frozenset[int] = frozenset()
    """A solid one of these holds a person."""
    pits: frozenset[int] = frozenset()
    water: frozenset[int] = frozenset()
    lava: frozenset[int] = frozenset()
    spikes: frozenset[int] = frozenset()
    ladders: frozenset[int] = frozenset()
    """Where a hero under `gravity` climbs."""
    ledges_up: frozenset[int] = frozenset()
    ledges_right: frozenset[int] = frozenset()
    ledges_down: frozenset[int] = frozenset()
    ledges_left: frozenset[int] = frozenset()
    bushes: frozenset[int] = frozenset()
    """Cut with a blade."""
    blocks: frozenset[int] = frozenset()
    """Blocks that are pushed any way, any number of times."""
    pushable: Mapping[int, Block] = field(default_factory=dict)
    """Blocks that are not."""
    block_groups: frozenset[int] = frozenset(range(8))
    """Groups of rooms in which blocks can be pushed at all."""
    plates: frozenset[int] = frozenset()
    buttons: frozenset[int] = frozenset()
    switches: frozenset[int] = frozenset()
    torches: frozenset[int] = frozenset()
    """Those that are out."""
    chests: frozenset[int] = frozenset()
    """Those that are closed."""
    chests_from_below: bool = False
    """They open for who stands below them only."""
    signs: frozenset[int] = frozenset()
    doors: frozenset[int] = frozenset()
    """Stairs, caves, doorways and holes to the floor below: stepping on one leads elsewhere."""
    locks: frozenset[int] = frozenset()
    """Doors and blocks that a small key opens when they are pushed."""
    boss_locks: frozenset[int] = frozenset()
    gravity: bool = False
    """Rooms seen from the side: whoever stands on nothing falls."""
    deep_ledges: bool = False
    """A jump down a ledge goes on over walls, down the face of the cliff, to the first cell without one."""
    modes: Mapping[int, Terrain] = field(default_factory=dict)
    puzzles: Mapping[tuple[int, int], PuzzleRoom] = field(default_factory=dict)
    """By group and room."""
    blade_numbers: frozenset[int] = frozenset()
    """Numbers of the sword in the detail tap `inventory` (button B, button A, the rest); none: it is on A."""
    fire_numbers: frozenset[int] = frozenset()
    """Numbers there of what lights torches; none: the blade does."""

    def of(self, mode: int) -> Terrain:
        """The kinds of metatiles in a collision mode."""
        return self.modes.get(mode, self)
