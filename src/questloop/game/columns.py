"""The decoded state of `N` games as arrays: what rewards, observation and planner read.

A profile decodes `taps` u8[N, K] into `Columns` once a vector step. Arrays are read-only views or fresh
arrays; they stay valid when the next step overwrites the taps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOM_ROWS, ROOM_COLS = 11, 16
"""Largest room in metatiles of 16 pixels, with the row stride of the collision table."""

ENEMY_SLOTS = 16

Bools = NDArray[np.bool_]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Masks = NDArray[np.object_]
"""Python integers, so that a mask has as many bits as a profile has milestones."""


@dataclass(slots=True)
class Columns:
    """Arrays [N] unless a shape is given. A profile leaves at zero what its game does not have."""

    # Where the hero is. y and x are pixels inside the room, 0-255; tile = (y // 16) * 16 + (x // 16), 0-255.
    group: Ints  # 0-7
    room: Ints  # 0-255 in its group: row and column on the group's map in its nibbles
    y: Ints
    x: Ints
    tile: Ints
    direction: Ints  # 0 up, 1 right, 2 down, 3 left
    large_room: Bools  # 15x11 metatiles instead of 10x8
    dungeon: Ints  # -1 outside dungeons
    floor: Ints
    season: Ints  # 0 spring, 1 summer, 2 autumn, 3 winter

    # The hero.
    health: Ints  # quarter hearts
    max_health: Ints
    height: Ints  # 0 on the ground, negative in the air
    invincible: Ints  # frames left
    hero_state: Ints  # the game's own state number; 1 is normal play in the Oracle games
    pushing: Bools  # against a block or wall
    riding: Bools
    swimming: Bools
    carrying: Bools

    # What the hero owns.
    rupees: Ints
    bombs: Ints
    seeds: Ints  # of all kinds
    small_keys: Ints  # held now, all dungeons together: falls when one is spent, so a reward counts rises
    keys_here: Ints  # small keys of this dungeon
    boss_keys: Ints  # how many
    boss_key_here: Bools
    sword_level: Ints
    shield_level: Ints  # 0 while no shield is owned
    essences: Ints  # bit mask, bit 0 is the first dungeon's
    essence_count: Ints
    seasons_owned: Ints  # bit mask
    items: Bytes  # [N, 16] level of each of the profile's `items`, 0 where not owned

    # Who is in control.
    text_active: Bools
    text_choice: Bools  # the box asks for a choice
    text_index: Ints  # -1 while no text is shown
    menu_open: Ints  # kind of menu, 0 none
    has_control: Bools
    transition: Bools  # scrolling, fading or warping
    dying: Bools
    game_over: Bools

    # The room.
    enemies: Ints  # those that count for "all dead"
    enemy_id: Bytes  # [N, 16], 0 in an empty slot
    enemy_y: Bytes
    enemy_x: Bytes
    enemy_health: Bytes
    triggers: Ints  # floor buttons pressed, bit mask
    torches: Ints
    switches: Ints  # toggle blocks, hit switches and spinners of this dungeon, one number
    block_moving: Bools
    room_flags: Ints
    collisions: Bytes  # [N, 11, 16], low nibble = solid quarters, 0 walkable

    milestones: Masks  # bit i: the profile's milestone i holds now (not latched)

    @property
    def n(self) -> int:
        """Slots."""
        return len(self.room)

    @property
    def place(self) -> Ints:
        """Group and room as one number, so that equal room numbers of two groups stay apart."""
        return (self.group << 8) | self.room

    @property
    def walks_freely(self) -> Bools:
        """Whether nothing takes the control from the player: no text, menu, scene or end."""
        hindered = self.transition | self.dying | self.game_over | self.text_active
        return self.has_control & ~hindered & (self.menu_open == 0)

    def take(self, slots: NDArray[Any]) -> Columns:
        """Columns of some slots, by indices or a mask."""
        return Columns(**{f.name: getattr(self, f.name)[slots] for f in fields(self)})

    @classmethod
    def zeros(cls, n: int) -> Columns:
        """All fields zero (text_index and dungeon -1): what a profile of a small game starts from."""
        shapes = {"items": (n, 16), "collisions": (n, ROOM_ROWS, ROOM_COLS)}
        shapes |= {f"enemy_{name}": (n, ENEMY_SLOTS) for name in ("id", "y", "x", "health")}
        kinds = {"Ints": np.int32, "Bools": np.bool_, "Bytes": np.uint8, "Masks": np.object_}
        values: dict[str, Any] = {
            f.name: np.zeros(shapes.get(f.name, n), kinds[str(f.type)]) for f in fields(cls)
        }
        values["text_index"][:] = -1
        values["dungeon"][:] = -1
        return cls(**values)


COLUMN_NAMES = frozenset(f.name for f in fields(Columns))
"""Names of all columns."""
