"""What a game's rooms are made of, as data: what a planner needs beyond collisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Riddle(StrEnum):
    """What a puzzle room asks for."""

    BLOCK = "block"  # a block on a plate
    BUTTON = "button"  # a button stepped on
    TORCHES = "torches"  # every torch lit with the blade
    ENEMIES = "enemies"  # every enemy beaten

    @property
    def needs_blade(self) -> bool:
        """Whether nobody without a sword can solve it."""
        return self in (Riddle.TORCHES, Riddle.ENEMIES)


@dataclass(frozen=True)
class PuzzleRoom:
    """A room with a riddle, solved once `room_flags & solved` is not 0."""

    riddle: Riddle
    solved: int


@dataclass(frozen=True)
class Terrain:
    """Kinds of metatiles by their number in the room layout (the tap `room_layout`), and the puzzle rooms.

    `feet`: pixels below the hero's position of the point that decides which metatile is underfoot.
    `puzzles`: by group and room.
    """

    feet: int = 0
    floor: frozenset[int] = frozenset()  # a solid one of these holds a person
    pits: frozenset[int] = frozenset()
    water: frozenset[int] = frozenset()
    ledges_down: frozenset[int] = frozenset()
    blocks: frozenset[int] = frozenset()
    plates: frozenset[int] = frozenset()
    buttons: frozenset[int] = frozenset()
    torches: frozenset[int] = frozenset()  # those that are out
    chests: frozenset[int] = frozenset()  # those that are closed
    signs: frozenset[int] = frozenset()
    doors: frozenset[int] = frozenset()  # stairs, caves and doorways: stepping on one leads elsewhere
    puzzles: Mapping[tuple[int, int], PuzzleRoom] = field(default_factory=dict)
