"""A moment of the game as a planner sees it: the room as a grid, and what stands in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from questloop.game.columns import ROOM_COLS
from questloop.game.profile import Profile
from questloop.game.state import GameState
from questloop.game.terrain import Block, PuzzleRoom, Riddle, Terrain
from questloop.planner.room import SIDES, Cell, Direction, Place, Room

TILE = 16
BUTTONS = ("B", "A")
"""In the order of the detail tap `inventory`."""


@dataclass(frozen=True)
class Scene:
    """A step of the game: its state, and the bytes of the profile's `details` by tap."""

    state: GameState
    details: Mapping[str, bytes] = field(repr=False)

    @property
    def answer(self) -> int:
        """The option that the cursor of a question stands on."""
        return self.byte("text_option")

    @property
    def mode(self) -> int:
        """The collision mode of the room."""
        return self.byte("active_collisions")

    def byte(self, tap: str) -> int:
        """The first byte of a detail tap; 0 where the profile has no such tap."""
        return self.details.get(tap, b"\0")[0]

    def button_of(self, numbers: Collection[int]) -> str | None:
        """The button that holds one of these items; "A" for no numbers, None where no button does."""
        if not numbers:
            return "A"
        held = self.details.get("inventory", b"")[: len(BUTTONS)]
        found = [button for button, item in zip(BUTTONS, held, strict=False) if item in numbers]
        return found[0] if found else None


@dataclass(frozen=True)
class View:
    """What a plan is made from. Places are (row, column).

    Doors, locks, people, signs and chests are closed cells of `room`; so are enemies, by `room.blocked`.
    """

    room: Room
    hero: Place
    riddle: Riddle | None = None
    block: Place | None = None
    """The block that the riddle `push` asks for."""
    blade: str | None = "A"
    fire: str | None = "A"
    """The buttons that strike, and that light torches; None: no button does."""
    plates: frozenset[Place] = frozenset()
    buttons: frozenset[Place] = frozenset()
    switches: frozenset[Place] = frozenset()
    torches: frozenset[Place] = frozenset()
    chests: frozenset[Place] = frozenset()
    signs: frozenset[Place] = frozenset()
    people: frozenset[Place] = frozenset()
    doors: frozenset[Place] = frozenset()
    locks: frozenset[Place] = frozenset()
    boss_locks: frozenset[Place] = frozenset()
    enemies: frozenset[Place] = frozenset()
    chests_from_below: bool = False
    """Chests open for who stands below them only."""
    dialog: bool = False
    choice: bool = False

    @property
    def chest_sides(self) -> tuple[Direction, ...]:
        """The sides from which a chest opens."""
        return (Direction.DOWN,) if self.chests_from_below else SIDES

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
        room = self.room
        document: dict[str, Any] = {
            "map": replace(room, blocked=frozenset(), spent=frozenset()).text().splitlines(),
            "hero": list(self.hero),
            "riddle": self.riddle.value if self.riddle else None,
            "dialog": self.dialog,
            "choice": self.choice,
        }
        lists: dict[str, list[Any]] = {name: _sorted(getattr(self, name)) for name in _LISTS}
        lists |= {name: _sorted(getattr(room, name)) for name in _ROOM_LISTS}
        lists["once"] = [
            [*place, *sorted(way.name.lower() for each, way in room.once if each == place)]
            for place in sorted({place for place, _ in room.once})
        ]
        exits = {way.name.lower(): _sorted(self.exits(way)) for way in Direction}
        document |= {name: value for name, value in lists.items() if value}
        document |= {name: True for name in _ROOM_FLAGS if getattr(room, name)}
        document |= {name: getattr(self, name) for name in ("blade", "fire") if getattr(self, name) != "A"}
        if self.chests_from_below:
            document["chests_from_below"] = True
        if self.block:
            document["block"] = list(self.block)
        return document | {"exits": {way: places for way, places in exits.items() if places}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> View:
        """Raises `ValueError` or `KeyError` where `document` is not one of `to_json`."""

        def places(name: str) -> frozenset[Place]:
            return frozenset((int(row), int(column)) for row, column in document.get(name, ()))

        row, column = document["hero"]
        riddle, block = document.get("riddle"), document.get("block")
        once = {
            ((int(row), int(column)), Direction[way.upper()])
            for row, column, *ways in document.get("once", ())
            for way in ways
        }
        return cls(
            room=replace(
                Room.parse("\n".join(document["map"])),
                blocked=places("blocked"),
                once=frozenset(once),
                slides=places("slides"),
                spent=places("spent"),
                gravity=bool(document.get("gravity")),
                deep_ledges=bool(document.get("deep_ledges")),
            ),
            hero=(int(row), int(column)),
            riddle=Riddle(riddle) if riddle else None,
            block=(int(block[0]), int(block[1])) if block else None,
            chests_from_below=bool(document.get("chests_from_below")),
            dialog=bool(document.get("dialog")),
            choice=bool(document.get("choice")),
            blade=document.get("blade", "A"),
            fire=document.get("fire", "A"),
            **{name: places(name) for name in _LISTS},
        )

    def _places(self) -> list[Place]:
        return [(row, column) for row in range(self.room.height) for column in range(self.room.width)]


_LISTS = (
    "plates", "buttons", "switches", "torches", "chests", "signs", "people", "doors", "locks", "boss_locks",
    "enemies",
)  # fmt: skip
_KINDS = tuple(name for name in _LISTS if name not in ("people", "enemies"))
_ROOM_LISTS = ("blocked", "slides", "spent")
_ROOM_FLAGS = ("gravity", "deep_ledges")


def view_of(scene: Scene, profile: Profile) -> View:
    """The view of a scene. A game whose profile knows no terrain has walls and floor only."""
    state, base = scene.state, profile.terrain
    terrain = base.of(scene.mode)
    layout = scene.details.get("room_layout", bytes(len(state.collisions)))
    columns, rows = state.room_size
    cells: list[tuple[Cell, ...]] = []
    found: dict[str, set[Place]] = {name: set() for name in (*_LISTS, "blocks")}
    blocks: dict[Place, Block] = {}
    for row in range(rows):
        line = []
        for column in range(columns):
            tile, solid = layout[row * ROOM_COLS + column], state.solid(column, row)
            block = _block(tile, state, terrain)
            kind = "blocks" if block else _kind(tile, solid, terrain)
            if kind:
                found[kind].add((row, column))
            if block:
                blocks[row, column] = block
            line.append(_cell(tile, solid and not block, terrain))
        cells.append(tuple(line))
    found["enemies"] = {(_inside(enemy.y, rows), _inside(enemy.x, columns)) for enemy in state.enemies}
    puzzle = puzzle_of(state, profile)
    return View(
        room=Room(
            tuple(cells),
            frozenset(found.pop("blocks")),
            frozenset(found["enemies"] | found["doors"]),
            once=frozenset(
                (place, SIDES[way]) for place, block in blocks.items() if block.once for way in block.ways
            ),
            slides=frozenset(place for place, block in blocks.items() if block.slides),
            gravity=terrain.gravity,
            deep_ledges=terrain.deep_ledges,
        ),
        hero=hero_of(state, base),
        riddle=puzzle.riddle if puzzle else None,
        block=puzzle.at if puzzle else None,
        blade=scene.button_of(base.blade_numbers),
        fire=scene.button_of(base.fire_numbers),
        chests_from_below=base.chests_from_below,
        dialog=state.text_index is not None,
        choice=state.text_choice,
        **{name: frozenset(places) for name, places in found.items()},
    )


def hero_of(state: GameState, terrain: Terrain) -> Place:
    """The cell under the hero's feet."""
    columns, rows = state.room_size
    return _inside(state.y + terrain.feet, rows), _inside(state.x, columns)


def puzzle_of(state: GameState, profile: Profile) -> PuzzleRoom | None:
    """The riddle of the room as long as it is not solved."""
    puzzle = profile.terrain.puzzles.get((state.group, state.room))
    if puzzle is None:
        return None
    solved = puzzle.is_solved(state.room_flags, state.enemies_left, state.triggers, state.torches)
    return None if solved else puzzle


def is_dialog_state(state: GameState) -> bool:
    """Whether text holds the game."""
    return state.text_index is not None


def is_puzzle_state(state: GameState, profile: Profile) -> bool:
    """Whether the hero stands, in control, in a room whose riddle is not solved, and can solve it."""
    puzzle = puzzle_of(state, profile)
    if puzzle is None or not state.has_control:
        return False
    if puzzle.needs:
        return state.items.get(puzzle.needs, 0) > 0
    return state.sword_level > 0 or not puzzle.riddle.needs_blade


def _inside(pixel: int, cells: int) -> int:
    return min(pixel // TILE, cells - 1)


def _block(tile: int, state: GameState, terrain: Terrain) -> Block | None:
    """How the metatile is pushed; None: not at all, or not by this hero."""
    if state.group not in terrain.block_groups:
        return None
    block = _ANY_WAY if tile in terrain.blocks else terrain.pushable.get(tile)
    return None if block is None or (block.needs and not state.items.get(block.needs)) else block


_ANY_WAY = Block()


def _kind(tile: int, solid: bool, terrain: Terrain) -> str | None:
    if solid and tile in terrain.floor:
        return "people"
    for name in _KINDS:
        if tile in getattr(terrain, name):
            return name
    return None


def _cell(tile: int, solid: bool, terrain: Terrain) -> Cell:
    for name, cell in _CELLS.items():
        if tile in getattr(terrain, name):
            return cell
    return Cell.WALL if solid else Cell.FLOOR


_CELLS = {
    "pits": Cell.PIT,
    "water": Cell.WATER,
    "lava": Cell.LAVA,
    "spikes": Cell.SPIKES,
    "ladders": Cell.LADDER,
    "ledges_up": Cell.LEDGE_UP,
    "ledges_right": Cell.LEDGE_RIGHT,
    "ledges_down": Cell.LEDGE_DOWN,
    "ledges_left": Cell.LEDGE_LEFT,
}


def _sorted(places: Iterable[Place]) -> list[list[int]]:
    return [list(place) for place in sorted(places)]
