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

from questloop.game.actions import HELD_BITS, Action
from questloop.game.columns import ROOM_COLS, ROOM_ROWS, Bools, Columns, Ints, Masks
from questloop.game.history import History
from questloop.game.profile import MAX_MILESTONES, Profile

OBSERVATION_VERSION = 2
OBSERVATION_SIZE = 128

Floats = NDArray[np.float32]

QUEST_SIZE = 21
"""Numbers that say how far the quest is; seven milestones share one where a profile has the most it may."""

WINDOW = 5
"""Metatiles a side of the collision window; the hero stands in its middle, which is no part of it."""

_NEW_TILE_FRAMES, _NEW_ROOM_FRAMES = 1_024, 8_192


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
    _scalar("dungeon", "dungeon + 1, 0 outside dungeons,", lambda c: c.dungeon + 1, 12),
    _scalar("season_warm", "+1 summer, -1 winter, else 0", lambda c: _WARM[c.season], low=-1),
    _scalar("season_growing", "+1 spring, -1 autumn, else 0", lambda c: _GROWING[c.season], low=-1),
    _scalar("health", "health / full health", lambda c: c.health / np.maximum(c.max_health, 1)),
    _scalar("rupees", "log(1 + rupees)", lambda c: _log(c.rupees), float(_LOG[999])),
    _scalar("bombs", "log(1 + bombs)", lambda c: _log(c.bombs), float(_LOG[99])),
    _scalar("seeds", "log(1 + seeds of all kinds)", lambda c: _log(c.seeds), float(_LOG[495])),
    _scalar("keys_here", "a small key of this dungeon is in hand", lambda c: c.keys_here != 0),
    _scalar("boss_key_here", "boss key of this dungeon", lambda c: c.boss_key_here),
    _scalar("text", "a text box is up", lambda c: c.text_active),
    _scalar("choice", "the text box asks for a choice", lambda c: c.text_choice),
    _scalar("menu", "a menu is open", lambda c: c.menu_open != 0),
    _scalar("control", "the player has control", lambda c: c.has_control),
    _scalar("pushing", "pushing against something", lambda c: c.pushing),
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

_GROUPS = {"second_world": (1,), "indoors": (2, 3), "dungeon": (4, 5), "side_scroll": (6, 7)}
_SIDES = ("up", "right", "down", "left")


def _dimensions() -> tuple[Dimension, ...]:
    table = [scalar.dimension for scalar in _SCALARS]
    table += [
        Dimension("facing_x", -1, 1, "the hero looks right +1, left -1"),
        Dimension("facing_y", -1, 1, "the hero looks down +1, up -1"),
    ]
    table += [
        Dimension(f"group_{name}", 0, 1, f"room group {', '.join(map(str, groups))}")
        for name, groups in _GROUPS.items()
    ]
    table += [Dimension(f"room_bit_{i}", 0, 1, f"bit {i} of the room number") for i in range(8)]
    table += [Dimension(f"item_{i}", 0, 1, f"level of the profile's item {i} / 3") for i in range(16)]
    table += [
        Dimension("enemy_0_dx", -1, 1, "nearest enemy: pixels to the right / 128"),
        Dimension("enemy_0_dy", -1, 1, "nearest enemy: pixels down / 128"),
        Dimension("enemy_0_kind", 0, 1, "nearest enemy: kind / 127, 0 for none"),
        Dimension("enemy_0_health", 0, 1, "nearest enemy: health / 16"),
        Dimension("enemy_1_dx", -1, 1, "second enemy by distance: pixels to the right / 128"),
        Dimension("enemy_1_dy", -1, 1, "second enemy by distance: pixels down / 128"),
    ]
    table += [
        Dimension(
            f"solid_{row:+d}_{column:+d}",
            -1,
            1,
            f"solid quarters / 4 of the metatile {row:+d} rows, {column:+d} columns away;"
            " -1 outside the room",
        )
        for row, column in _OFFSETS
    ]
    table += [
        Dimension(f"quest_{i}", 0, 1, f"share of group {i} of the profile's milestones that holds")
        for i in range(QUEST_SIZE)
    ]
    table += [
        Dimension(f"room_{side}_visited", 0, 1, f"history: the room {side} was entered") for side in _SIDES
    ]
    table += [
        Dimension(f"tile_{side}_visited", 0, 1, f"history: the metatile {side} was stepped on")
        for side in _SIDES
    ]
    table += [
        Dimension(f"action_{action.name.lower()}", 0, 1, "history: the last action")
        for action in Action
        if action < Action.START
    ]
    table += [
        Dimension("dx", -1, 1, "history: pixels moved right in the last step / 16, 0 across rooms"),
        Dimension("dy", -1, 1, "history: pixels moved down in the last step / 16, 0 across rooms"),
        Dimension("since_tile", 0, 1, f"history: frames since a new metatile / {_NEW_TILE_FRAMES}"),
        Dimension("since_room", 0, 1, f"history: frames since a new room / {_NEW_ROOM_FRAMES}"),
    ]
    return tuple(table)


_OFFSETS = [
    (row, column)
    for row in range(-(WINDOW // 2), WINDOW // 2 + 1)
    for column in range(-(WINDOW // 2), WINDOW // 2 + 1)
    if (row, column) != (0, 0)
]
"""Rows and columns from the hero to each metatile of the window."""

DIMENSIONS = _dimensions()
"""Every dimension, in order."""

assert len(DIMENSIONS) == OBSERVATION_SIZE

INDEX = {dimension.name: i for i, dimension in enumerate(DIMENSIONS)}
"""Place of a dimension by its name."""


class Encoder:
    """Observations of N slots. It owns the history that some dimensions need; a reset clears it."""

    def __init__(self, n: int, profile: Profile, frame_skip: int) -> None:
        """`profile` says how many milestones there are, `frame_skip` how many frames a step has."""
        self.n = n
        self.history = History(n)
        self._profile, self._frame_skip = profile, frame_skip
        self._quest = _quest_groups(len(profile.milestones))
        self._recent_scales = np.array(
            [1 / 16, 1 / 16, frame_skip / _NEW_TILE_FRAMES, frame_skip / _NEW_ROOM_FRAMES], np.float32
        )

    def reset(self, slots: Bools | Ints | list[int]) -> None:
        """Forget the history of `slots` (a mask bool[N] or indices), at an episode's start or a restart."""
        self.history.reset(slots)

    def begin(self, slots: NDArray[np.integer[Any]], columns: Columns) -> Floats:
        """Forget the history of `slots` (indices) and observe their first frame: f32[len(slots), 128].

        `columns` are those of all slots; for the others no step is counted.
        """
        fresh = Encoder(len(slots), self._profile, self._frame_skip)
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
        fill(_held(columns.milestones) @ self._quest)
        fill(self.history.rooms_beside)
        fill(self.history.tiles_beside)
        fill(_ACTION_BITS[actions])
        fill(self.history.recent * self._recent_scales)
        np.minimum(out, 1, out=out)
        np.maximum(out, -1, out=out)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The history, as arrays."""
        return self.history.state_dict()

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore `state_dict`."""
        self.history.load_state_dict(state)


_ACTION_BITS = HELD_BITS[:, : int(Action.START)]
_ROOM_BITS = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(np.float32)
_HOT_STRIDE = 8
_LOOKS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # right and down, in the order of the hero's directions
_ONE_HOTS = np.array(
    [
        [*look, *(group in groups for groups in _GROUPS.values())]
        for look in _LOOKS
        for group in range(_HOT_STRIDE)
    ],
    np.float32,
)
_ITEM_SCALE = np.float32(1 / 3)
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


def _quest_groups(count: int) -> Floats:
    """f32 [MAX_MILESTONES, QUEST_SIZE]: what each of `count` milestones adds to the number of its group.

    Groups are neighbours in the profile's order and as small as they can be, alone where there is room. Where
    several share a number, it counts them: they are reached one after the other as a rule.
    """
    size = max(1, -(-count // QUEST_SIZE))
    table = np.zeros((MAX_MILESTONES, QUEST_SIZE), np.float32)
    places = np.arange(count)
    members = np.bincount(places // size, minlength=QUEST_SIZE)
    table[places, places // size] = 1 / members[places // size]
    return table


def _held(milestones: Masks) -> Floats:
    """f32 [N, MAX_MILESTONES]: 1 for each milestone that holds."""
    masks = b"".join([int(mask).to_bytes(MAX_MILESTONES // 8, "little") for mask in milestones.tolist()])
    rows = np.frombuffer(masks, np.uint8).reshape(len(milestones), -1)
    return np.unpackbits(rows, axis=1, bitorder="little").astype(np.float32)


def _nearest_enemies(c: Columns) -> Floats:
    near = np.zeros((c.n, 2, 4), np.float32)
    if c.enemy_id.any():
        dx, dy = c.enemy_x - c.x[:, None], c.enemy_y - c.y[:, None]
        present = c.enemy_id != 0
        distance = np.where(present, dx * dx + dy * dy, _FAR)
        order = distance.argsort(axis=1, kind="stable")[:, :2]
        places = order + np.arange(0, c.enemy_id.size, c.enemy_id.shape[1])[:, None]
        for i, values in enumerate((dx, dy, c.enemy_id, c.enemy_health)):
            near[:, :, i] = (values * present).take(places)
        near *= _ENEMY_SCALES
    return near.reshape(c.n, -1)[:, :6]


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
    rows, columns = np.array(_OFFSETS).T
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
        "The `item_*` dimensions follow the order of the game profile's `items`, the `quest_*` dimensions"
        f" that of its `milestones`: one each where there are at most {QUEST_SIZE}, groups of neighbours"
        f" otherwise (of {MAX_MILESTONES}, seven each at most).",
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
