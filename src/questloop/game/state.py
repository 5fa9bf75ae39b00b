"""One moment of the game for readers other than a policy, and its compact JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np

from questloop.game.columns import Bytes, Columns
from questloop.game.profile import Profile


class Facing(IntEnum):
    """Where the hero looks."""

    UP = 0
    RIGHT = 1
    DOWN = 2
    LEFT = 3


class Season(IntEnum):
    """Season of the current room."""

    SPRING = 0
    SUMMER = 1
    AUTUMN = 2
    WINTER = 3


@dataclass(frozen=True, slots=True)
class Enemy:
    """An enemy in the room; x and y in pixels inside it."""

    kind: int
    x: int
    y: int
    health: int


@dataclass(frozen=True, slots=True)
class GameState:
    """What holds at one step. Pixels are inside the room, health is in quarter hearts."""

    group: int
    room: int
    x: int
    y: int
    direction: Facing
    large_room: bool
    dungeon: int | None
    floor: int
    season: Season
    health: int
    max_health: int
    rupees: int
    bombs: int
    seeds: int
    small_keys: int
    keys_here: int
    boss_keys: int
    boss_key_here: bool
    sword_level: int
    shield_level: int
    essences: tuple[int, ...]  # dungeon numbers, the first is 1
    seasons_owned: tuple[Season, ...]
    items: dict[str, int]  # name to level
    text_index: int | None  # None while no text is shown
    text_choice: bool
    menu: int
    has_control: bool
    transition: bool
    dying: bool
    game_over: bool
    hero_state: int
    in_air: bool
    pushing: bool
    riding: bool
    swimming: bool
    carrying: bool
    enemies: tuple[Enemy, ...]
    enemies_left: int  # those that count for "all dead"
    triggers: int
    torches: int
    switches: int
    block_moving: bool
    room_flags: int
    milestones: tuple[str, ...]  # keys of those that hold now
    collisions: bytes = field(repr=False)  # 11 rows of 16 metatiles, low nibble = solid quarters

    @property
    def tile(self) -> tuple[int, int]:
        """Column and row of the metatile that the hero stands on."""
        return self.x >> 4, self.y >> 4

    @property
    def room_size(self) -> tuple[int, int]:
        """Columns and rows of the room in metatiles."""
        return (15, 11) if self.large_room else (10, 8)

    def solid(self, column: int, row: int) -> bool:
        """Whether any quarter of a metatile blocks the hero; outside the room everything does."""
        columns, rows = self.room_size
        if not (0 <= column < columns and 0 <= row < rows):
            return True
        return self.collisions[row * 16 + column] & 0x0F != 0

    def to_json(self) -> dict[str, Any]:
        """A compact document: what is zero, false or absent is left out."""
        document: dict[str, Any] = {
            "room": f"{self.group}:{self.room:02x}",
            "pos": [self.x, self.y],
            "face": self.direction.name.lower(),
            "health": [self.health, self.max_health],
        }
        optional = {
            "dungeon": self.dungeon,
            "floor": self.floor if self.dungeon is not None else None,
            "season": self.season.name.lower() if self.seasons_owned or self.season else None,
            "rupees": self.rupees,
            "bombs": self.bombs,
            "seeds": self.seeds,
            "keys": self.small_keys,
            "keys_here": self.keys_here,
            "boss_keys": self.boss_keys,
            "sword": self.sword_level,
            "shield": self.shield_level,
            "essences": list(self.essences),
            "items": self.items,
            "text": self.text_index,
            "choice": self.text_choice,
            "menu": self.menu,
            "no_control": not self.has_control,
            "transition": self.transition,
            "dying": self.dying,
            "game_over": self.game_over,
            "in_air": self.in_air,
            "pushing": self.pushing,
            "riding": self.riding,
            "swimming": self.swimming,
            "carrying": self.carrying,
            "enemies": [[enemy.kind, enemy.x, enemy.y, enemy.health] for enemy in self.enemies],
            "enemies_left": self.enemies_left,
            "buttons": self.triggers,
            "torches": self.torches,
            "switches": self.switches,
            "block_moving": self.block_moving,
            "room_flags": self.room_flags,
            "milestones": list(self.milestones),
        }
        document |= {
            key: value
            for key, value in optional.items()
            if value or (key in ("dungeon", "text") and value is not None)
        }
        return document


def decode(row: Bytes, profile: Profile) -> GameState:
    """The state of one row u8[K]."""
    return decode_all(row[np.newaxis], profile)[0]


def decode_all(taps: Bytes, profile: Profile) -> list[GameState]:
    """The states of rows u8[L, K], for instance those of a segment: cheaper than one by one."""
    return _states(profile.columns(taps), profile)


def state_of(columns: Columns, slot: int, profile: Profile) -> GameState:
    """The state of one slot of columns that are already decoded."""
    return _states(columns, profile, slice(slot, slot + 1))[0]


def _states(columns: Columns, profile: Profile, rows: slice = slice(None)) -> list[GameState]:
    """All through lists: reading an element of an array costs five times as much."""

    def read(name: str) -> list[Any]:
        values: list[Any] = getattr(columns, name)[rows].tolist()
        return values

    masks = read("milestones")
    names = {mask: tuple(profile.milestone_names(mask)) for mask in set(masks)}
    made: dict[str, Iterable[Any]] = {
        "direction": map(_DIRECTIONS.__getitem__, read("direction")),
        "dungeon": map(_unless_negative, read("dungeon")),
        "season": map(_SEASONS.__getitem__, read("season")),
        "essences": map(_numbers, read("essences")),
        "seasons_owned": map(_seasons, read("seasons_owned")),
        "items": (_owned(profile.items, levels) for levels in read("items")),
        "text_index": map(_unless_negative, read("text_index")),
        "menu": read("menu_open"),
        "in_air": (columns.height[rows] < 0).tolist(),
        "enemies": map(_enemies, *map(read, ("enemy_id", "enemy_x", "enemy_y", "enemy_health"))),
        "enemies_left": read("enemies"),
        "milestones": map(names.__getitem__, masks),
        "collisions": (row.tobytes() for row in columns.collisions[rows]),
    }
    lists = (made[name] if name in made else read(name) for name in _FIELDS)
    return list(map(GameState, *lists))


_FIELDS = tuple(field.name for field in fields(GameState))
_DIRECTIONS = {int(each): each for each in Facing}
_SEASONS = {int(each): each for each in Season}


@cache
def _numbers(mask: int) -> tuple[int, ...]:
    """Bits of a byte that are set, counted from 1."""
    return tuple(bit + 1 for bit in range(8) if mask >> bit & 1)


@cache
def _seasons(mask: int) -> tuple[Season, ...]:
    return tuple(season for season in Season if mask >> season & 1)


def _unless_negative(number: int) -> int | None:
    return None if number < 0 else number


def _owned(names: tuple[str, ...], levels: list[int]) -> dict[str, int]:
    return {name: level for name, level in zip(names, levels, strict=False) if level} if any(levels) else {}


def _enemies(*slots: list[int]) -> tuple[Enemy, ...]:
    """Of kinds, x, y and health by slot; kind 0 is an empty one."""
    return tuple(Enemy(*values) for values in zip(*slots, strict=True) if values[0]) if any(slots[0]) else ()
