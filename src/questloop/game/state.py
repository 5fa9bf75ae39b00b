"""One moment of the game for readers other than a policy, and its compact JSON."""

from __future__ import annotations

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
    columns = _Lists(profile.columns(taps), profile)
    return [_state(columns, row, profile) for row in range(len(taps))]


def state_of(columns: Columns, slot: int, profile: Profile) -> GameState:
    """The state of one slot of columns that are already decoded."""
    return _state(_Lists(columns, profile, slice(slot, slot + 1)), 0, profile)


class _Lists:
    """Columns as Python lists: reading an element of an array costs five times as much."""

    def __init__(self, columns: Columns, profile: Profile, rows: slice = slice(None)) -> None:
        arrays = {field.name: getattr(columns, field.name)[rows] for field in fields(columns)}
        self.collisions = [row.tobytes() for row in arrays.pop("collisions")]
        vars(self).update({name: array.tolist() for name, array in arrays.items()})
        masks: list[int] = vars(self)["milestones"]
        names = {mask: tuple(profile.milestone_names(mask)) for mask in set(masks)}
        self.milestones = [names[mask] for mask in masks]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _state(columns: _Lists, slot: int, profile: Profile) -> GameState:
    c = columns
    dungeon, text = c.dungeon[slot], c.text_index[slot]
    return GameState(
        group=c.group[slot],
        room=c.room[slot],
        x=c.x[slot],
        y=c.y[slot],
        direction=_DIRECTIONS[c.direction[slot]],
        large_room=bool(c.large_room[slot]),
        dungeon=None if dungeon < 0 else dungeon,
        floor=c.floor[slot],
        season=_SEASONS[c.season[slot]],
        health=c.health[slot],
        max_health=c.max_health[slot],
        rupees=c.rupees[slot],
        bombs=c.bombs[slot],
        seeds=c.seeds[slot],
        small_keys=c.small_keys[slot],
        keys_here=c.keys_here[slot],
        boss_keys=c.boss_keys[slot],
        boss_key_here=bool(c.boss_key_here[slot]),
        sword_level=c.sword_level[slot],
        shield_level=c.shield_level[slot],
        essences=_numbers(c.essences[slot]),
        seasons_owned=_seasons(c.seasons_owned[slot]),
        items={name: level for name, level in zip(profile.items, c.items[slot], strict=False) if level},
        text_index=None if text < 0 else text,
        text_choice=bool(c.text_choice[slot]),
        menu=c.menu_open[slot],
        has_control=bool(c.has_control[slot]),
        transition=bool(c.transition[slot]),
        dying=bool(c.dying[slot]),
        game_over=bool(c.game_over[slot]),
        hero_state=c.hero_state[slot],
        in_air=bool(c.height[slot] < 0),
        pushing=bool(c.pushing[slot]),
        riding=bool(c.riding[slot]),
        swimming=bool(c.swimming[slot]),
        carrying=bool(c.carrying[slot]),
        enemies=_enemies(c, slot),
        enemies_left=c.enemies[slot],
        triggers=c.triggers[slot],
        torches=c.torches[slot],
        switches=c.switches[slot],
        block_moving=bool(c.block_moving[slot]),
        room_flags=c.room_flags[slot],
        milestones=c.milestones[slot],
        collisions=c.collisions[slot],
    )


_DIRECTIONS = {int(each): each for each in Facing}
_SEASONS = {int(each): each for each in Season}


@cache
def _numbers(mask: int) -> tuple[int, ...]:
    """Bits of a byte that are set, counted from 1."""
    return tuple(bit + 1 for bit in range(8) if mask >> bit & 1)


@cache
def _seasons(mask: int) -> tuple[Season, ...]:
    return tuple(season for season in Season if mask >> season & 1)


def _enemies(c: _Lists, slot: int) -> tuple[Enemy, ...]:
    found = zip(c.enemy_id[slot], c.enemy_x[slot], c.enemy_y[slot], c.enemy_health[slot], strict=True)
    return tuple(Enemy(*values) for values in found if values[0])
