"""A moment of the game as a planner sees it: the room as a grid, and what stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from questloop.game.columns import ROOM_COLS
from questloop.game.profile import Profile
from questloop.game.state import GameState
from questloop.game.terrain import PuzzleRoom, Riddle, Terrain
from questloop.planner.room import Cell, Direction, Place, Room

TILE = 16


@dataclass(frozen=True)
class Scene:
    """A step of the game: its state, and the bytes of the profile's `details` by tap."""

    state: GameState
    details: Mapping[str, bytes] = field(repr=False)

    @property
    def answer(self) -> int:
        """The option that the cursor of a question stands on."""
        option = self.details.get("text_option")
        return option[0] if option else 0


@dataclass(frozen=True)
class View:
    """What a plan is made from. Places are (row, column).

    Doors, people, signs and chests are closed cells of `room`; so are enemies, by `room.blocked`.
    """

    room: Room
    hero: Place
    riddle: Riddle | None = None
    plates: frozenset[Place] = frozenset()
    buttons: frozenset[Place] = frozenset()
    torches: frozenset[Place] = frozenset()
    chests: frozenset[Place] = frozenset()
    signs: frozenset[Place] = frozenset()
    people: frozenset[Place] = frozenset()
    doors: frozenset[Place] = frozenset()
    enemies: frozenset[Place] = frozenset()
    dialog: bool = False
    choice: bool = False

    @property
    def still(self) -> Room:
        """The room without its enemies, which move: doors stay closed."""
        return replace(self.room, blocked=self.doors)

    def exits(self, direction: Direction) -> list[Place]:
        """Open cells at the edge that lies in `direction`."""
        last = {Direction.DOWN: self.room.height - 1, Direction.RIGHT: self.room.width - 1}.get(direction, 0)
        axis = 0 if direction.value[0] else 1
        return [place for place in self._places() if place[axis] == last and self.still.open(place)]

    def to_json(self) -> dict[str, Any]:
        """The map and its lists; `from_json` reads them back."""
        document: dict[str, Any] = {
            "map": replace(self.room, blocked=frozenset()).text().splitlines(),
            "hero": list(self.hero),
            "riddle": self.riddle.value if self.riddle else None,
            "dialog": self.dialog,
            "choice": self.choice,
        }
        lists = {name: [list(place) for place in sorted(getattr(self, name))] for name in _LISTS}
        exits = {way.name.lower(): [list(place) for place in self.exits(way)] for way in Direction}
        lists["blocked"] = [list(place) for place in sorted(self.room.blocked)]
        document |= {name: value for name, value in lists.items() if value}
        return document | {"exits": {way: places for way, places in exits.items() if places}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> View:
        """Raises `ValueError` or `KeyError` where `document` is not one of `to_json`."""

        def places(name: str) -> frozenset[Place]:
            return frozenset((int(row), int(column)) for row, column in document.get(name, ()))

        row, column = document["hero"]
        riddle = document.get("riddle")
        return cls(
            room=replace(Room.parse("\n".join(document["map"])), blocked=places("blocked")),
            hero=(int(row), int(column)),
            riddle=Riddle(riddle) if riddle else None,
            dialog=bool(document.get("dialog")),
            choice=bool(document.get("choice")),
            **{name: places(name) for name in _LISTS},
        )

    def _places(self) -> list[Place]:
        return [(row, column) for row in range(self.room.height) for column in range(self.room.width)]


_LISTS = ("plates", "buttons", "torches", "chests", "signs", "people", "doors", "enemies")


def view_of(scene: Scene, profile: Profile) -> View:
    """The view of a scene. A game whose profile knows no terrain has walls and floor only."""
    state, terrain = scene.state, profile.terrain
    layout = scene.details.get("room_layout", bytes(len(state.collisions)))
    columns, rows = state.room_size
    cells: list[tuple[Cell, ...]] = []
    found: dict[str, set[Place]] = {name: set() for name in (*_LISTS, "blocks")}
    for row in range(rows):
        line = []
        for column in range(columns):
            tile, solid = layout[row * ROOM_COLS + column], state.solid(column, row)
            kind = _kind(tile, solid, terrain)
            if kind:
                found[kind].add((row, column))
            line.append(_cell(tile, solid and kind != "blocks", terrain))
        cells.append(tuple(line))
    enemies = {(_inside(enemy.y, rows), _inside(enemy.x, columns)) for enemy in state.enemies}
    puzzle = puzzle_of(state, profile)
    return View(
        room=Room(tuple(cells), frozenset(found.pop("blocks")), frozenset(enemies | found["doors"])),
        hero=hero_of(state, terrain),
        riddle=puzzle.riddle if puzzle else None,
        dialog=state.text_index is not None,
        choice=state.text_choice,
        **{name: frozenset(places) for name, places in (found | {"enemies": enemies}).items()},
    )


def hero_of(state: GameState, terrain: Terrain) -> Place:
    """The cell under the hero's feet."""
    columns, rows = state.room_size
    return _inside(state.y + terrain.feet, rows), _inside(state.x, columns)


def puzzle_of(state: GameState, profile: Profile) -> PuzzleRoom | None:
    """The riddle of the room as long as it is not solved."""
    puzzle = profile.terrain.puzzles.get((state.group, state.room))
    return puzzle if puzzle and not state.room_flags & puzzle.solved else None


def is_dialog_state(state: GameState) -> bool:
    """Whether text holds the game."""
    return state.text_index is not None


def is_puzzle_state(state: GameState, profile: Profile) -> bool:
    """Whether the hero stands, in control, in a room whose riddle is not solved, and can solve it."""
    puzzle = puzzle_of(state, profile)
    if puzzle is None or not state.has_control:
        return False
    return state.sword_level > 0 or not puzzle.riddle.needs_blade


def _inside(pixel: int, cells: int) -> int:
    return min(pixel // TILE, cells - 1)


def _kind(tile: int, solid: bool, terrain: Terrain) -> str | None:
    if solid and tile in terrain.floor:
        return "people"
    for name in ("blocks", "plates", "buttons", "torches", "chests", "signs", "doors"):
        if tile in getattr(terrain, name):
            return name
    return None


def _cell(tile: int, solid: bool, terrain: Terrain) -> Cell:
    if tile in terrain.pits:
        return Cell.PIT
    if tile in terrain.water:
        return Cell.WATER
    if tile in terrain.ledges_down:
        return Cell.LEDGE_DOWN
    return Cell.WALL if solid else Cell.FLOOR
