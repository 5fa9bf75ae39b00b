"""Decodes rows of the memory map of Oracle of Seasons into `Columns`."""

from __future__ import annotations

import numpy as np

from questloop.game.columns import COLUMN_NAMES, ROOM_COLS, ROOM_ROWS, Bytes, Columns
from questloop.game.profiles.oracle_memory import DUNGEONS, ITEM_TREASURES, ITEMS, LEVELLED
from questloop.game.tables import BYTES, ByteTable
from questloop.game.taps import TapLayout

_DECIMAL = 10 * (BYTES >> 4) + (
    BYTES & 15
)  # digits above 9 count as they are; `questloop doctor` reports them
_IN_DUNGEON = BYTES < DUNGEONS
_TEXT_BASE = 0x400

# Name, tap, byte of the tap, and the value for each byte 0-255. A name of `Columns` is that column as it is.
_VALUES = (
    # The hero's position and direction, then the companion's, which count while it is ridden.
    ("hero_y", "hero_y", 0, BYTES),
    ("hero_x", "hero_x", 0, BYTES),
    ("hero_direction", "hero_direction", 0, BYTES & 3),
    ("companion_y", "companion_y", 0, BYTES),
    ("companion_x", "companion_x", 0, BYTES),
    ("companion_direction", "companion_direction", 0, BYTES & 3),
    ("group", "group", 0, BYTES),
    ("room", "room", 0, BYTES),
    ("dungeon", "dungeon", 0, np.where(BYTES == 0xFF, -1, BYTES)),
    ("dungeon_bit", "dungeon", 0, np.where(_IN_DUNGEON, 1 << (BYTES & 15), 0)),
    ("floor", "dungeon_floor", 0, BYTES),
    ("season", "season", 0, BYTES & 3),
    ("health", "health", 0, BYTES),
    ("max_health", "max_health", 0, BYTES),
    ("height", "hero_z", 0, BYTES.astype(np.int8)),
    ("invincible", "hero_invincible", 0, BYTES),
    ("hero_state", "hero_state", 0, BYTES),
    ("rupees_low", "rupees", 0, _DECIMAL),
    ("rupees_high", "rupees", 1, 100 * _DECIMAL),
    ("bombs", "bombs", 0, _DECIMAL),
    ("boss_keys_low", "boss_keys", 0, BYTES),
    ("boss_keys_high", "boss_keys", 1, BYTES << 8),
    ("sword_level", "sword_level", 0, BYTES),
    ("shield", "shield_level", 0, BYTES),
    ("essences", "essences", 0, BYTES),
    ("essence_count", "essences", 0, np.bitwise_count(BYTES)),
    ("seasons_owned", "obtained_seasons", 0, BYTES & 0x0F),  # bit 7 is the rod itself
    ("menu_open", "menu", 0, BYTES),
    ("text_low", "text_index", 0, BYTES),
    ("text_high", "text_index", 1, (BYTES << 8) - _TEXT_BASE),
    ("enemies", "enemies", 0, BYTES),
    ("triggers", "triggers", 0, BYTES),
    ("torches", "torches_lit", 0, BYTES),
    ("toggle_blocks", "toggle_blocks", 0, BYTES),
    ("switch_state", "switch_state", 0, BYTES << 8),
    ("spinner_state", "spinner_state", 0, BYTES << 16),
    ("room_flags", "room_flags", 0, BYTES),
)

_FLAGS = (
    ("riding", "hero_object", 0, BYTES == 0xD1),
    ("large_room", "room_is_large", 0, BYTES != 0),
    ("swimming", "swimming", 0, BYTES != 0),
    ("carrying", "grab", 0, BYTES != 0),
    ("pushing", "pushing_direction", 0, BYTES != 0xFF),
    ("block_moving", "pushed_block", 0, BYTES != 0),
    ("text_active", "text_active", 0, BYTES != 0),
    ("choosing", "text_mode", 0, BYTES == 1),
    ("death", "death_trigger", 0, BYTES != 0),
    ("dying_state", "hero_state", 0, BYTES == 3),
    ("game_over", "game_over", 0, BYTES != 0),
    # What takes control away; the middle three with `warping` make a transition.
    ("in_cutscene", "cutscene", 0, BYTES != 1),
    ("in_text", "text_active", 0, BYTES != 0),
    ("in_menu", "menu", 0, BYTES != 0),
    ("frozen", "disabled_objects", 0, BYTES & 0x81 != 0),
    ("not_playing", "game_state", 0, BYTES != 2),
    ("fading", "palette_thread", 0, BYTES != 0),
    ("scrolling", "scroll_mode", 0, BYTES != 1),
    ("warping", "warp_pending", 0, BYTES != 0),
)

STRIPS = (0x00, 0xC3, 0x03, 0xC0, 0x00, 0xC3, 0xC3, 0x00, 0x00, 0xC3, 0x03, 0xC0, 0xC0, 0xC1, 0xFF, 0x00)
"""Collision bytes 10-1F: which of eight strips of 2 pixels are solid; columns, rows from 18 on.

10 is a hazard (hole, water, lava), 11 and 19 are bridges, 17 is the minecart's track, 18 stairs."""
_MIDDLE = 0x3C  # the four strips that a hero walks on
SOLID_QUARTERS = np.where(BYTES < 0x10, BYTES, 0x0F).astype(np.uint8)
"""Solid quarters of a metatile by its collision byte: below 10 its low bits, from 10 on none where the middle
is free and all where it is not; the rest, above all the screen's edge FF, is solid."""
SOLID_QUARTERS[0x10:0x20] = [0x0F if strips & _MIDDLE else 0 for strips in STRIPS]

_Rows = tuple[tuple[str, str, int, np.ndarray], ...]


class OracleDecoder:
    """Decodes rows of an `oracle_layout`; `milestones` is left zero."""

    def __init__(self, layout: TapLayout) -> None:
        blocks = (_VALUES, _SEEDS, _KEYS, _LEVELS, _OWNED, _FLAGS)
        rows = [row for block in blocks for row in block]
        places = [layout.index(tap, element) for _, tap, element, _ in rows]
        self._table = ByteTable(places, np.array([function for *_, function in rows], np.int32))
        self._splits = np.cumsum([len(block) for block in blocks])[:-1]
        self._collisions = layout.offset("collisions")
        enemy = [layout.offset(f"enemy_{name}") for name in ("enabled", "id", "y", "x", "health")]
        self._enemy = slice(enemy[0].start, enemy[-1].stop)

    def __call__(self, taps: Bytes) -> Columns:
        n = len(taps)
        values, seeds, keys, levels, owned, flags = np.split(self._table(taps), self._splits)
        flags = flags != 0
        v = dict(zip(_VALUE_NAMES, values, strict=True))
        f = dict(zip(_FLAG_NAMES, flags, strict=True))
        y, x, direction = np.where(f["riding"], values[3:6], values[:3])
        boss_keys = v["boss_keys_low"] | v["boss_keys_high"]
        text_index = np.where(f["text_active"], np.maximum(v["text_low"] + v["text_high"], 0), -1)
        enemy = taps[:, self._enemy].copy().reshape(n, 5, -1)
        decoded: dict[str, np.ndarray] = {
            **{name: v[name] for name in _PLAIN_VALUES},
            **{name: f[name] for name in _PLAIN_FLAGS},
            "y": y,
            "x": x,
            "tile": (y & 0xF0) | (x >> 4),
            "direction": direction,
            "rupees": v["rupees_low"] + v["rupees_high"],
            "seeds": _sum(seeds),
            "small_keys": _sum(keys),
            "keys_here": _sum(keys * (v["dungeon"] == _DUNGEONS)),
            "boss_keys": np.bitwise_count(boss_keys).astype(np.int32),
            "boss_key_here": boss_keys & v["dungeon_bit"] != 0,
            "shield_level": v["shield"] * owned[0],
            "items": (levels * owned).T.astype(np.uint8),
            "text_choice": f["text_active"] & f["choosing"],
            "text_index": text_index,
            "has_control": ~np.logical_or.reduce(flags[_CONTROL]),
            "transition": np.logical_or.reduce(flags[_TRANSITION]),
            "dying": f["death"] | f["dying_state"],
            "enemy_id": enemy[:, 1] * (enemy[:, 0] != 0),
            "enemy_y": enemy[:, 2],
            "enemy_x": enemy[:, 3],
            "enemy_health": enemy[:, 4],
            "switches": v["toggle_blocks"] | v["switch_state"] | v["spinner_state"],
            "collisions": SOLID_QUARTERS[taps[:, self._collisions]].reshape(n, ROOM_ROWS, ROOM_COLS),
            "milestones": np.zeros(n, np.object_),
        }
        return Columns(**decoded)


_SEEDS: _Rows = tuple(("", "seeds", kind, _DECIMAL) for kind in range(5))
_KEYS: _Rows = tuple(("", "small_keys", dungeon, BYTES) for dungeon in range(DUNGEONS))
_OWNED: _Rows = tuple(
    (name, "treasures", number >> 3, BYTES >> (number & 7) & 1)
    for name, number in zip(ITEMS, ITEM_TREASURES, strict=True)
)
# An owned item has level 1 at least; those without a level byte have it always.
_LEVELS: _Rows = tuple(
    (name, tap, 0, np.maximum(BYTES, 1) if levelled else np.ones_like(BYTES))
    for name in ITEMS
    for levelled in [name in LEVELLED]
    for tap in [f"{name}_level" if levelled else "treasures"]
)
_VALUE_NAMES = tuple(name for name, *_ in _VALUES)
_FLAG_NAMES = tuple(name for name, *_ in _FLAGS)
_PLAIN_VALUES = tuple(name for name in _VALUE_NAMES if name in COLUMN_NAMES)
_PLAIN_FLAGS = tuple(name for name in _FLAG_NAMES if name in COLUMN_NAMES)
_CONTROL = slice(_FLAG_NAMES.index("in_cutscene"), _FLAG_NAMES.index("warping"))
_TRANSITION = slice(_FLAG_NAMES.index("not_playing"), None)
_DUNGEONS = np.arange(DUNGEONS)[:, None]


def _sum(values: np.ndarray) -> np.ndarray:
    total: np.ndarray = values.sum(axis=0, dtype=np.int32)
    return total
