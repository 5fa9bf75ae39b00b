"""A room as the planner sees it: a small grid of cells, and the moves they allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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

SIDES = (Direction.UP, Direction.RIGHT, Direction.DOWN, Direction.LEFT)
"""In the order of a game's directions."""

Place = tuple[int, int]  # row, column


class Cell(StrEnum):
    """What stands on a metatile. The value is its letter in the text map that a language model reads."""

    FLOOR = "."
    WALL = "#"
    PIT = "o"
    WATER = "~"
    LAVA = "!"
    SPIKES = "*"
    LADDER = "H"
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
_STOOD_ON = (Cell.FLOOR, Cell.LADDER)


@dataclass(frozen=True)
class Room:
    """A grid of cells with the pushable blocks that stand on it.

    `cells[row][column]`; small rooms are 8 x 10, large ones 11 x 15. `blocked` holds places that are closed
    for now though their cell is open: an enemy, a person, a pot. Blocks are pushed one cell, any way and any
    number of times, but for these: a block at a place of `once` has only the pushes that stand there, and
    stays for good where the first one puts it (`spent`); one at a place of `slides` goes on until something
    stops it.
    """

    cells: tuple[tuple[Cell, ...], ...]
    blocks: frozenset[Place] = frozenset()
    blocked: frozenset[Place] = field(default=frozenset())
    once: frozenset[tuple[Place, Direction]] = frozenset()
    slides: frozenset[Place] = frozenset()
    spent: frozenset[Place] = frozenset()
    gravity: bool = False
    """Seen from the side: up and down are for ladders, and whoever stands on nothing falls."""
    deep_ledges: bool = False
    """A jump goes on over walls, down the face of the cliff."""

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
        """Rows of cells."""
        return len(self.cells)

    @property
    def width(self) -> int:
        """Columns of cells."""
        return len(self.cells[0])

    def inside(self, place: Place) -> bool:
        """Whether a place `(row, column)` lies in the room."""
        return 0 <= place[0] < self.height and 0 <= place[1] < self.width

    def cell(self, place: Place) -> Cell:
        """What the cell at `(row, column)` is; the place must lie inside."""
        return self.cells[place[0]][place[1]]

    def open(self, place: Place) -> bool:
        """Whether a hero may stand here, if nothing lets him fall."""
        return (
            self.inside(place)
            and self.cell(place) in _STOOD_ON
            and place not in self.blocks
            and place not in self.blocked
            and place not in self.spent
        )

    def step(self, place: Place, direction: Direction) -> Place | None:
        """Where a step from `place` ends: the neighbour, the far side of a ledge, the ground below, or None
        where it is barred.

        Ledges are directed edges: they are crossed, never stood on, and only in their own direction.
        """
        if self.gravity:
            return self._step_aside(place, direction)
        target = neighbour(place, direction)
        jumps = False
        while self.inside(target) and self._jumped(target, direction, jumps):
            target, jumps = neighbour(target, direction), True
        return target if self.open(target) else None

    def moves(self, place: Place) -> Iterator[tuple[Direction, Place]]:
        """Every step that leads somewhere."""
        for direction in Direction:
            target = self.step(place, direction)
            if target is not None:
                yield direction, target

    def can_push(self, block: Place, direction: Direction) -> bool:
        """Whether the block at a place gives way to a push, from wherever."""
        if block not in self.blocks or not self.open(neighbour(block, direction)):
            return False
        pushes = {way for place, way in self.once if place == block}
        return not pushes or direction in pushes

    def lands(self, block: Place, direction: Direction) -> Place:
        """Where a block comes to rest that `can_push`."""
        place = neighbour(block, direction)
        while block in self.slides and self.open(neighbour(place, direction)):
            place = neighbour(place, direction)
        return place

    def pushed(self, block: Place, direction: Direction) -> Room:
        """The room after a push that `can_push`."""
        place = self.lands(block, direction)
        if any(each == block for each, _ in self.once):
            once = frozenset(pair for pair in self.once if pair[0] != block)
            return replace(self, blocks=self.blocks - {block}, once=once, spent=self.spent | {place})
        slides = self.slides - {block} | {place} if block in self.slides else self.slides
        return replace(self, blocks=self.blocks - {block} | {place}, slides=slides)

    def text(self, hero: Place | None = None) -> str:
        """The map as text: cells, `B` blocks, `x` blocked places, `@` the hero."""
        marks = dict.fromkeys(self.blocked | self.spent, "x") | dict.fromkeys(self.blocks, "B")
        if hero is not None:
            marks[hero] = "@"
        return "\n".join(
            "".join(marks.get((r, c), cell.value) for c, cell in enumerate(row))
            for r, row in enumerate(self.cells)
        )

    def _jumped(self, place: Place, direction: Direction, jumps: bool) -> bool:
        """Whether a step passes over a cell; `jumps`: it has passed over one before."""
        cell = self.cell(place)
        return cell.ledge is direction or (jumps and self.deep_ledges and cell is Cell.WALL)

    def _step_aside(self, place: Place, direction: Direction) -> Place | None:
        """A step in a room seen from the side, and the fall after it."""
        climbs = Cell.LADDER in (self.cell(place), self._inner(neighbour(place, direction)))
        if direction is Direction.UP and self.cell(place) is not Cell.LADDER:
            return None
        if direction is Direction.DOWN and not climbs:
            return None
        target = neighbour(place, direction)
        while self.open(target) and not self._held(target):
            target = neighbour(target, Direction.DOWN)
        return target if self.open(target) else None

    def _held(self, place: Place) -> bool:
        """Whether whoever is at a place in a room seen from the side does not fall."""
        below = neighbour(place, Direction.DOWN)
        on_ladder = Cell.LADDER in (self.cell(place), self._inner(below))
        solid = self._inner(below) is Cell.WALL or below in self.blocks | self.blocked | self.spent
        return on_ladder or solid

    def _inner(self, place: Place) -> Cell | None:
        return self.cell(place) if self.inside(place) else None


def neighbour(place: Place, direction: Direction) -> Place:
    """The next place in a direction, inside the room or not."""
    return place[0] + direction.value[0], place[1] + direction.value[1]


def distance(a: Place, b: Place) -> int:
    """Steps between two places where nothing is in the way."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])
