"""The 128-dimensional observation of the vector policy and of the reward model.

`DIMENSIONS` is the whole table; `docs/reference/observation.md` is made from it by
`python -m questloop.game.observation`. Everything lies in [-1, 1]. A change of any dimension's meaning raises
`OBSERVATION_VERSION`, since networks trained on the old one must not read the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.game.actions import ACTION_COUNT, Action
from questloop.game.columns import ROOM_COLS, ROOM_ROWS, Bools, Columns, Ints
from questloop.game.history import History

OBSERVATION_VERSION = 1
OBSERVATION_SIZE = 128

Floats = NDArray[np.float32]

NEAREST_ENEMIES = 3
WINDOW = 5
"""Metatiles a side of the collision window; the hero stands in its middle."""

_NEW_TILE_STEPS, _NEW_ROOM_STEPS = 256, 2048


@dataclass(frozen=True)
class Dimension:
    """One component: its range, and where its value comes from."""

    name: str
    low: float
    high: float
    source: str


@dataclass(frozen=True)
class _Scalar:
    dimension: Dimension
    value: Callable[[Columns], NDArray[Any]]
    scale: float


def _scalar(
    name: str, source: str, value: Callable[[Columns], NDArray[Any]], full: float = 1, low: float = 0
) -> _Scalar:
    """A dimension that is 1 where `value` is `full`."""
    source += f" / {full:g}" if full != 1 else ""
    return _Scalar(Dimension(name, low, 1, source), value, 1 / full)


_ROOM_SIZES = np.array([[160, 128], [240, 176]], np.float32)  # width, height in pixels: small, large
_WARM, _GROWING = np.array([[0, 1, 0, -1], [1, 0, -1, 0]], np.float32)
_LOG = np.log1p(np.arange(1000), dtype=np.float32)


def _log(values: Ints) -> NDArray[np.float32]:
    logs: NDArray[np.float32] = _LOG[np.minimum(values, 999)]
    return logs


_SCALARS = (
    _scalar("x", "x / room width", lambda c: c.x / _ROOM_SIZES[c.large_room.view(np.uint8), 0]),
    _scalar("y", "y / room height", lambda c: c.y / _ROOM_SIZES[c.large_room.view(np.uint8), 1]),
    _scalar("x_in_tile", "x mod 16", lambda c: c.x & 15, 15),
    _scalar("y_in_tile", "y mod 16", lambda c: c.y & 15, 15),
    _scalar("room_column", "low nibble of the room", lambda c: c.room & 15, 15),
    _scalar("room_row", "high nibble of the room", lambda c: c.room >> 4, 15),
    _scalar("dungeon", "dungeon + 1, 0 outside dungeons,", lambda c: c.dungeon + 1, 12),
    _scalar("floor", "floor of the dungeon", lambda c: c.floor, 7),
    _scalar("season_warm", "+1 summer, -1 winter, else 0", lambda c: _WARM[c.season], low=-1),
    _scalar("season_growing", "+1 spring, -1 autumn, else 0", lambda c: _GROWING[c.season], low=-1),
    _scalar("health", "health / full health", lambda c: c.health / np.maximum(c.max_health, 1)),
    _scalar("max_health", "full health in quarter hearts", lambda c: c.max_health, 80),
    _scalar("rupees", "log(1 + rupees)", lambda c: _log(c.rupees), float(_LOG[999])),
    _scalar("bombs", "log(1 + bombs)", lambda c: _log(c.bombs), float(_LOG[99])),
    _scalar("seeds", "log(1 + seeds of all kinds)", lambda c: _log(c.seeds), float(_LOG[495])),
    _scalar("keys_here", "small keys of this dungeon", lambda c: c.keys_here, 4),
    _scalar("boss_key_here", "boss key of this dungeon", lambda c: c.boss_key_here),
    _scalar("essences", "essences owned", lambda c: c.essence_count, 8),
    _scalar("text", "a text box is up", lambda c: c.text_active),
    _scalar("choice", "the text box asks for a choice", lambda c: c.text_choice),
    _scalar("menu", "a menu is open", lambda c: c.menu_open != 0),
    _scalar("control", "the player has control", lambda c: c.has_control),
    _scalar("transition", "scrolling, fading or warping", lambda c: c.transition),
    _scalar("dying", "dying or game over", lambda c: c.dying | c.game_over),
    _scalar("pushing", "pushing against something", lambda c: c.pushing),
    _scalar("block_moving", "a pushed block moves", lambda c: c.block_moving),
    _scalar("carrying", "grabbing, lifting or holding", lambda c: c.carrying),
    _scalar(
        "afloat", "+1 riding, -1 swimming", lambda c: np.subtract(c.riding, c.swimming, dtype=int), low=-1
    ),
    _scalar("height", "pixels above the ground", lambda c: -c.height, 32, low=-1),
    _scalar("invincible", "frames of invincibility", lambda c: c.invincible & 0x7F, 64),
    _scalar("enemies", "enemies that count for 'all dead'", lambda c: c.enemies, 8),
    _scalar("buttons", "floor buttons pressed", lambda c: np.bitwise_count(c.triggers), 4),
    _scalar("torches", "torches lit", lambda c: c.torches, 4),
    _scalar("switches", "dungeon switches thrown", lambda c: np.bitwise_count(c.switches), 8),
    _scalar("room_item", "the room's item is taken", lambda c: c.room_flags >> 5 & 1),
    _scalar("room_doors", "doors of the room opened", lambda c: np.bitwise_count(c.room_flags & 15), 4),
    _scalar("room_solved", "room flags 40 and 80", lambda c: c.room_flags >> 6 & 3, 3),
)
_SCALES = np.array([scalar.scale for scalar in _SCALARS], np.float32)

_GROUP_NAMES = ("overworld", "second_world", "tree", "indoors", "dungeon", "side_scroll")
_GROUP_OF = np.array([0, 1, 2, 3, 4, 4, 5, 5], np.intp)
_FACING = ("up", "right", "down", "left")
_SIDES = ("up", "right", "down", "left")


def _dimensions() -> tuple[Dimension, ...]:
    reach = WINDOW // 2
    table = [scalar.dimension for scalar in _SCALARS]
    table += [Dimension(f"facing_{side}", 0, 1, f"the hero looks {side}") for side in _FACING]
    table += [
        Dimension(f"group_{name}", 0, 1, f"room group {', '.join(map(str, np.flatnonzero(i == _GROUP_OF)))}")
        for i, name in enumerate(_GROUP_NAMES)
    ]
    table += [Dimension(f"room_bit_{i}", 0, 1, f"bit {i} of the room number") for i in range(8)]
    table += [Dimension(f"item_{i}", 0, 1, f"level of the profile's item {i} / 3") for i in range(16)]
    for i in range(NEAREST_ENEMIES):
        which = f"enemy {i + 1} by distance"
        table += [
            Dimension(f"enemy_{i}_dx", -1, 1, f"{which}: pixels to the right / 128"),
            Dimension(f"enemy_{i}_dy", -1, 1, f"{which}: pixels down / 128"),
            Dimension(f"enemy_{i}_kind", 0, 1, f"{which}: kind / 127, 0 for none"),
            Dimension(f"enemy_{i}_health", 0, 1, f"{which}: health / 16"),
        ]
    table += [
        Dimension(
            f"solid_{row - reach:+d}_{column - reach:+d}",
            -1,
            1,
            f"solid quarters / 4 of the metatile {row - reach:+d} rows, {column - reach:+d} columns away;"
            " -1 outside the room",
        )
        for row in range(WINDOW)
        for column in range(WINDOW)
    ]
    table += [
        Dimension(f"room_{side}_visited", 0, 1, f"history: the room {side} was entered") for side in _SIDES
    ]
    table += [
        Dimension(f"tile_{side}_visited", 0, 1, f"history: the metatile {side} was stepped on")
        for side in _SIDES
    ]
    table += [
        Dimension(f"action_{action.name.lower()}", 0, 1, "history: the last action") for action in Action
    ]
    table += [
        Dimension("dx", -1, 1, "history: pixels moved right in the last step / 16, 0 across rooms"),
        Dimension("dy", -1, 1, "history: pixels moved down in the last step / 16, 0 across rooms"),
        Dimension("since_tile", 0, 1, f"history: steps since a new metatile / {_NEW_TILE_STEPS}"),
        Dimension("since_room", 0, 1, f"history: steps since a new room / {_NEW_ROOM_STEPS}"),
    ]
    return tuple(table)


DIMENSIONS = _dimensions()
"""Every dimension, in order."""

assert len(DIMENSIONS) == OBSERVATION_SIZE

INDEX = {dimension.name: i for i, dimension in enumerate(DIMENSIONS)}
"""Place of a dimension by its name."""


class Encoder:
    """Observations of N slots. It owns the history that some dimensions need; a reset clears it."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.history = History(n)

    def reset(self, slots: Bools | Ints | list[int]) -> None:
        """Forget the history of `slots` (a mask bool[N] or indices), at an episode's start or a restart."""
        self.history.reset(slots)

    def begin(self, slots: NDArray[np.integer[Any]], columns: Columns) -> Floats:
        """Forget the history of `slots` (indices) and observe their first frame: f32[len(slots), 128].

        `columns` are those of all slots; for the others no step is counted.
        """
        fresh = Encoder(len(slots))
        out = np.zeros((len(slots), OBSERVATION_SIZE), np.float32)
        fresh.encode(columns.take(slots), np.full(len(slots), Action.NOP, np.uint8), out)
        self.history.put(slots, fresh.history)
        return out

    def encode(self, columns: Columns, actions: NDArray[np.uint8], out: Floats) -> None:
        """Write the observations of a step into `out` f32[N, 128] and add the step to the history.

        `actions` u8[N] led to this step; NOP after a reset.
        """
        self.history.add(columns)
        fill = _Filler(out)
        fill(np.array([scalar.value(columns) for scalar in _SCALARS], np.float32).T * _SCALES)
        fill(_ONE_HOTS[columns.direction * _HOT_STRIDE + (columns.group & 7)])
        fill(_ROOM_BITS[columns.room & 255])
        fill(columns.items * _ITEM_SCALE)
        fill(_nearest_enemies(columns))
        fill(_window(columns))
        fill(self.history.rooms_beside)
        fill(self.history.tiles_beside)
        fill(_ACTION_BITS[actions])
        fill(self.history.recent * _RECENT_SCALES)
        np.minimum(out, 1, out=out)
        np.maximum(out, -1, out=out)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The history, as arrays."""
        return self.history.state_dict()

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore `state_dict`."""
        self.history.load_state_dict(state)


_ACTION_BITS = np.eye(ACTION_COUNT, dtype=np.float32)
_ROOM_BITS = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(np.float32)
_HOT_STRIDE = len(_GROUP_OF)
_ONE_HOTS = np.array(
    [
        [*np.eye(4)[direction], *np.eye(len(_GROUP_NAMES))[group]]
        for direction in range(4)
        for group in _GROUP_OF
    ],
    np.float32,
)
_ITEM_SCALE = np.float32(1 / 3)
_RECENT_SCALES = np.array([1 / 16, 1 / 16, 1 / _NEW_TILE_STEPS, 1 / _NEW_ROOM_STEPS], np.float32)
_FAR = 1 << 20
_ENEMY_SCALES = np.array([1 / 128, 1 / 128, 1 / 127, 1 / 16], np.float32)
_SOLID_QUARTERS = np.bitwise_count(np.arange(256, dtype=np.uint8) & 15).astype(np.float32) / 4


class _Filler:
    """Writes blocks of columns side by side."""

    def __init__(self, out: Floats) -> None:
        self._out = out
        self._at = 0

    def __call__(self, block: NDArray[Any]) -> None:
        end = self._at + block.shape[1]
        self._out[:, self._at : end] = block
        self._at = end


def _nearest_enemies(c: Columns) -> Floats:
    near = np.zeros((c.n, NEAREST_ENEMIES, 4), np.float32)
    if c.enemy_id.any():
        dx, dy = c.enemy_x - c.x[:, None], c.enemy_y - c.y[:, None]
        present = c.enemy_id != 0
        distance = np.where(present, dx * dx + dy * dy, _FAR)
        order = distance.argsort(axis=1, kind="stable")[:, :NEAREST_ENEMIES]
        places = order + np.arange(0, c.enemy_id.size, c.enemy_id.shape[1])[:, None]
        for i, values in enumerate((dx, dy, c.enemy_id, c.enemy_health)):
            near[:, :, i] = (values * present).take(places)
        near *= _ENEMY_SCALES
    return near.reshape(c.n, -1)


def _window(c: Columns) -> Floats:
    at = c.tile + _LARGE * c.large_room
    places = _WINDOW_PLACES[at] + np.arange(0, c.collisions.size, ROOM_ROWS * ROOM_COLS)[:, None]
    solid = _SOLID_QUARTERS[c.collisions.take(places)]
    window: Floats = np.where(_WINDOW_INSIDE[at], solid, _OUTSIDE)
    return window


_LARGE = 256
_OUTSIDE = np.float32(-1)


def _window_tables() -> tuple[NDArray[np.intp], Bools]:
    """For each metatile of small, then large rooms: the window's places in the collision table, and which of
    them lie inside the room."""
    rows, columns = (axis.ravel() - WINDOW // 2 for axis in np.indices((WINDOW, WINDOW)))
    at = np.arange(256)[:, None]
    rows, columns = (at >> 4) + rows, (at & 15) + columns
    sizes = ((8, 10), (11, 15))
    inside = [(rows >= 0) & (rows < h) & (columns >= 0) & (columns < w) for h, w in sizes]
    places = [np.where(within, rows * ROOM_COLS + columns, 0) for within in inside]
    return np.concatenate(places).astype(np.intp), np.concatenate(inside)


_WINDOW_PLACES, _WINDOW_INSIDE = _window_tables()


def describe() -> str:
    """The reference page, in Markdown."""
    lines = [
        "# Observation",
        "",
        f"Version {OBSERVATION_VERSION}: {OBSERVATION_SIZE} float32 values in [-1, 1], read by the vector"
        " policy and the reward model.",
        "Dimensions whose source begins with *history* depend on the episode so far and are cleared at its"
        " start; the others follow from memory alone.",
        "The `item_*` dimensions follow the order of the game profile's `items`.",
        "",
        "This page is made by `python -m questloop.game.observation > docs/reference/observation.md`.",
        "",
        "| # | name | low | high | source |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {i} | `{d.name}` | {d.low:g} | {d.high:g} | {d.source} |" for i, d in enumerate(DIMENSIONS)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(describe(), end="")
