"""A room as the planner sees it: a small grid of cells, and the moves they allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum


class Direction(Enum):
    """A step on the grid: (row, column)."""

    UP = (-1, 0)
    DOWN = (1, 0)
    LEFT = (0, -1)
    RIGHT = (0, 1)

    @property
    def opposite(self) -> Direction:
        return _OPPOSITE[self]


_OPPOSITE = {
    Direction.UP: Direction.DOWN,
    Direction.DOWN: Direction.UP,
    Direction.LEFT: Direction.RIGHT,
    Direction.RIGHT: Direction.LEFT,
}

Place = tuple[int, int]  # row, column


class Cell(StrEnum):
    """What stands on a metatile. The value is its letter in the text map that a language model reads."""

    FLOOR = "."
    WALL = "#"
    PIT = "o"
    WATER = "~"
    LEDGE_UP = "^"
    LEDGE_DOWN = "v"
    LEDGE_LEFT = "<"
    LEDGE_RIGHT = ">"

    @property
    def ledge(self) -> Direction | None:
        """The one direction in which a ledge is crossed."""
        return _LEDGES.get(self)


_LEDGES = {
    Cell.LEDGE_UP: Direction.UP,
    Cell.LEDGE_DOWN: Direction.DOWN,
    Cell.LEDGE_LEFT: Direction.LEFT,
    Cell.LEDGE_RIGHT: Direction.RIGHT,
}


@dataclass(frozen=True)
class Room:
    """A grid of cells with the pushable blocks that stand on it.

    `cells[row][column]`; small rooms are 8 x 10, large ones 11 x 15. `blocked` holds places that are closed
    for now though their cell is open: an enemy, a person, a pot.
    """

    cells: tuple[tuple[Cell, ...], ...]
    blocks: frozenset[Place] = frozenset()
    blocked: frozenset[Place] = field(default=frozenset())

    @classmethod
    def parse(cls, text: str) -> Room:
        """Read a text map: the letters of `Cell`, `B` for a block on the floor.

        >>> Room.parse(". B #").blocks
        frozenset({(0, 1)})
        """
        rows = [
            line.split() if " " in line.strip() else list(line.strip()) for line in text.strip().splitlines()
        ]
        blocks = frozenset(
            (r, c) for r, row in enumerate(rows) for c, letter in enumerate(row) if letter == "B"
        )
        return cls(tuple(tuple(Cell(letter.replace("B", ".")) for letter in row) for row in rows), blocks)

    @property
    def height(self) -> int:
        return len(self.cells)

    @property
    def width(self) -> int:
        return len(self.cells[0])

    def inside(self, place: Place) -> bool:
        return 0 <= place[0] < self.height and 0 <= place[1] < self.width

    def cell(self, place: Place) -> Cell:
        return self.cells[place[0]][place[1]]

    def open(self, place: Place) -> bool:
        """Whether a hero may stand here."""
        return (
            self.inside(place)
            and self.cell(place) is Cell.FLOOR
            and place not in self.blocks
            and place not in self.blocked
        )

    def step(self, place: Place, direction: Direction) -> Place | None:
        """Where a step from `place` ends: the neighbour, the far side of a ledge, or None where it is barred.

        Ledges are directed edges: they are crossed, never stood on, and only in their own direction.
        """
        target = neighbour(place, direction)
        while self.inside(target) and self.cell(target).ledge is direction:
            target = neighbour(target, direction)
        return target if self.open(target) else None

    def moves(self, place: Place) -> Iterator[tuple[Direction, Place]]:
        """Every step that leads somewhere."""
        for direction in Direction:
            target = self.step(place, direction)
            if target is not None:
                yield direction, target

    def text(self, hero: Place | None = None) -> str:
        """The map as text: cells, `B` blocks, `x` blocked places, `@` the hero."""
        marks = dict.fromkeys(self.blocked, "x") | dict.fromkeys(self.blocks, "B")
        if hero is not None:
            marks[hero] = "@"
        return "\n".join(
            "".join(marks.get((r, c), cell.value) for c, cell in enumerate(row))
            for r, row in enumerate(self.cells)
        )


def neighbour(place: Place, direction: Direction) -> Place:
    """The next place in a direction, inside the room or not."""
    return place[0] + direction.value[0], place[1] + direction.value[1]
