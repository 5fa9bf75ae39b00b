"""The memory map of Oracle of Seasons (USA), which Mossgrove shares."""

from __future__ import annotations

from collections.abc import Iterable

from questloop.game.columns import ENEMY_SLOTS, ROOM_COLS, ROOM_ROWS
from questloop.game.profile import ByteRange, ByteTest, Sanity, bit, equals
from questloop.game.taps import IndexedTap, Tap, TapLayout

OBJECTS = 1
"""WRAM bank of the object pages: page Dn holds hero or item, interaction, enemy and part n."""

DUNGEONS = 12

ROOM_FLAG_BASES = (0xC700, 0xC800, 0xC800, 0xC800, 0xC900, 0xCA00, 0xC900, 0xCA00)
"""Room flags of a group start here; the room number is the offset."""

TAPS = (
    # Engine.
    Tap("game_state", None, 0xC2EE),
    Tap("cutscene", None, 0xC2EF),
    Tap("palette_thread", None, 0xC4AB),
    # Status and inventory, in the save block.
    Tap("small_keys", None, 0xC66E, DUNGEONS),
    Tap("boss_keys", None, 0xC67A, 2),
    Tap("compasses", None, 0xC67C, 2),
    Tap("maps", None, 0xC67E, 2),
    Tap("treasures", None, 0xC692, 10),
    Tap("health", None, 0xC6A2),
    Tap("max_health", None, 0xC6A3),
    Tap("heart_pieces", None, 0xC6A4),
    Tap("rupees", None, 0xC6A5, 2),
    Tap("shield_level", None, 0xC6A9),
    Tap("bombs", None, 0xC6AA),
    Tap("sword_level", None, 0xC6AC),
    Tap("satchel_level", None, 0xC6AE),
    Tap("obtained_seasons", None, 0xC6B0),
    Tap("boomerang_level", None, 0xC6B1),
    Tap("slingshot_level", None, 0xC6B3),
    Tap("feather_level", None, 0xC6B4),
    Tap("seeds", None, 0xC6B5, 5),
    Tap("essences", None, 0xC6BB),
    Tap("global_flags", None, 0xC6CA, 6),
    Tap("inserted_jewels", None, 0xC6E1),
    # Text, menus, control.
    Tap("text_active", None, 0xCBA0),
    Tap("text_mode", None, 0xCBA1),
    Tap("text_index", None, 0xCBA2, 2),
    Tap("menu", None, 0xCBCB),
    Tap("disabled_objects", None, 0xCCA4),
    Tap("scroll_mode", None, 0xCD00),
    Tap("warp_pending", None, 0xCC67),
    Tap("death_trigger", None, 0xCC34),
    Tap("game_over", None, 0xCC35),
    # The room.
    Tap("group", None, 0xCC49),
    Tap("room_is_large", None, 0xCC4A),
    Tap("room", None, 0xCC4C),
    Tap("season", None, 0xCC4E),
    Tap("dungeon", None, 0xCC55),
    Tap("dungeon_floor", None, 0xCC57),
    Tap("enemies", None, 0xCC30),
    Tap("toggle_blocks", None, 0xCC31),
    Tap("switch_state", None, 0xCC32),
    Tap("spinner_state", None, 0xCC33),
    Tap("torches_lit", None, 0xCCA9),
    Tap("triggers", None, 0xCCBA),
    Tap("collisions", None, 0xCE00, ROOM_ROWS * ROOM_COLS),
    # The hero, and the companion whose object holds the position while it is ridden.
    Tap("hero_object", None, 0xCC48),
    Tap("hero_state", OBJECTS, 0xD004),
    Tap("hero_direction", OBJECTS, 0xD008),
    Tap("hero_y", OBJECTS, 0xD00B),
    Tap("hero_x", OBJECTS, 0xD00D),
    Tap("hero_z", OBJECTS, 0xD00F),
    Tap("hero_invincible", OBJECTS, 0xD02B),
    Tap("companion_direction", OBJECTS, 0xD108),
    Tap("companion_y", OBJECTS, 0xD10B),
    Tap("companion_x", OBJECTS, 0xD10D),
    Tap("grab", None, 0xCC75),
    Tap("swimming", None, 0xCC78),
    Tap("pushing_direction", None, 0xCC80),
    Tap("pushed_block", OBJECTS, 0xD140),
    # Enemies, one of each field a page.
    Tap("enemy_enabled", OBJECTS, 0xD080, ENEMY_SLOTS, 0x100),
    Tap("enemy_id", OBJECTS, 0xD081, ENEMY_SLOTS, 0x100),
    Tap("enemy_y", OBJECTS, 0xD08B, ENEMY_SLOTS, 0x100),
    Tap("enemy_x", OBJECTS, 0xD08D, ENEMY_SLOTS, 0x100),
    Tap("enemy_health", OBJECTS, 0xD0A9, ENEMY_SLOTS, 0x100),
)
"""Read every step."""

DETAILS = TapLayout(
    (
        Tap("keys_pressed", None, 0xC481, 2),
        Tap("unappraised_rings", None, 0xC5C0, 64),
        Tap("rings", None, 0xC616, 8),
        Tap("deaths", None, 0xC61E, 2),
        Tap("enemies_killed", None, 0xC620, 2),
        Tap("playtime", None, 0xC622, 4),
        Tap("signs_destroyed", None, 0xC626),
        Tap("rupees_collected", None, 0xC627, 2),
        Tap("respawn_on_load", None, 0xC62B, 13),
        Tap("minimap", None, 0xC63A, 4),
        Tap("companion_states", None, 0xC643, 3),
        Tap("visited_floors", None, 0xC662, DUNGEONS),
        Tap("inventory", None, 0xC680, 18),
        Tap("ore_chunks", None, 0xC6A7, 2),
        Tap("max_bombs", None, 0xC6AB),
        Tap("bombchus", None, 0xC6AD),
        Tap("flute", None, 0xC6AF),
        Tap("magnet_polarity", None, 0xC6B2),
        Tap("gasha_seeds", None, 0xC6BA),
        Tap("trade_item", None, 0xC6BC),
        Tap("pirate_bell", None, 0xC6BD),
        Tap("ring_box", None, 0xC6C0, 5),
        Tap("active_ring", None, 0xC6C5),
        Tap("ring_box_level", None, 0xC6C6),
        Tap("all_treasures", None, 0xC692, 16),
        Tap("all_global_flags", None, 0xC6CA, 16),
        Tap("text_option", None, 0xCBA5),
        Tap("text_flags", None, 0xCBAE),
        Tap("text_position", None, 0xCBAC),
        Tap("simulated_input", None, 0xCBC3),
        Tap("collisions_disabled", None, 0xCBCA),
        Tap("menu_disabled", None, 0xCC02),
        Tap("cutscene_state", None, 0xCC03),
        Tap("cutscene_trigger", None, 0xCC04),
        Tap("enemies_killed_list", None, 0xCC1F, 17),
        Tap("maku_stage", None, 0xCC39),
        Tap("local_respawn", None, 0xCC3D, 3),
        Tap("hero_angle", None, 0xCC47),
        Tap("loading_room", None, 0xCC4B),
        Tap("active_collisions", None, 0xCC4F),
        Tap("tileset_flags", None, 0xCC50),
        Tap("dungeon_position", None, 0xCC56),
        Tap("dungeon_room_properties", None, 0xCC58),
        Tap("warp_destination", None, 0xCC63, 5),
        Tap("in_air", None, 0xCC77),
        Tap("push_counter", None, 0xCC84),
        Tap("active_tile", None, 0xCCB3, 4),
        Tap("on_chest", None, 0xCCB9),
        Tap("block_push_angle", None, 0xCCC0),
        Tap("in_shop", None, 0xCCEA),
        Tap("screen_transition", None, 0xCD02, 3),
        Tap("room_layout", None, 0xCF00, ROOM_ROWS * ROOM_COLS),
        Tap("script_vars", None, 0xCFC0, 32),
        Tap("hero", OBJECTS, 0xD000, 0x40),
        Tap("companion", OBJECTS, 0xD100, 0x40),
        Tap("pushed_block_object", OBJECTS, 0xD140, 0x40),
        Tap("camera", None, 0xFFA8, 4),
    )
)
"""The rest of the reference: read on demand by tools and planners, never on the hot path."""

ITEMS = (
    "shield", "bombs", "sword", "boomerang", "rod", "magnet_gloves", "flute", "slingshot",
    "shovel", "bracelet", "feather", "satchel", "flippers", "gnarled_key", "floodgate_key", "dragon_key",
)  # fmt: skip
"""What `Columns.items` counts, by level; the first is the shield."""

SANITY = Sanity(
    # Subrosia has 11 columns and 8 rows, the Maku tree's screens the last columns of its rows.
    maps={0: (16, 16), 1: (11, 8), **dict.fromkeys(range(2, 8), (16, 16))},
    max_health=20 * 4,
    collisions=True,
    ranges=(
        ByteRange("game_state", 0, 3),
        ByteRange("season", 0, 3),
        ByteRange("room_is_large", 0, 1),
        ByteRange("dungeon", 0, DUNGEONS - 1, (0xFF,)),
        ByteRange("dungeon_floor", 0, 7),
        ByteRange("menu", 0, 10),
        ByteRange("hero_object", 0xD0, 0xD1),
        ByteRange("hero_direction", 0, 3),
        ByteRange("pushing_direction", 0, 3, (0xFF,)),
        ByteRange("heart_pieces", 0, 3),
        ByteRange("sword_level", 0, 3),
        ByteRange("shield_level", 0, 3),
        ByteRange("enemies", 0, ENEMY_SLOTS),
        ByteRange("torches_lit", 0, ENEMY_SLOTS),
        ByteRange("small_keys", 0, 9),
    ),
    bcd=("rupees", "bombs", "seeds"),
)
"""Ranges that hold while the player has control."""

ITEM_TREASURES = (
    0x01, 0x03, 0x05, 0x06, 0x07, 0x08, 0x0E, 0x13,
    0x15, 0x16, 0x17, 0x19, 0x2E, 0x42, 0x43, 0x44,
)  # fmt: skip
LEVELLED = ("shield", "sword", "boomerang", "slingshot", "feather", "satchel")
"""Items with a level byte of their own."""


def oracle_layout(rooms: Iterable[tuple[int, int]] = ()) -> TapLayout:
    """The taps of the shared memory map and the flags of `rooms` (group, room), which milestones ask for."""
    flags = [Tap(_flags_name(group, room), None, ROOM_FLAG_BASES[group] + room) for group, room in rooms]
    return TapLayout([*TAPS, *flags], [IndexedTap("room_flags", ROOM_FLAG_BASES, "group", "room")])


def treasure(number: int) -> ByteTest:
    """Treasure flag `number` is set now. A treasure that is taken away clears it."""
    return bit("treasures", number)


def global_flag(number: int) -> ByteTest:
    """Global flag `number` is set."""
    return bit("global_flags", number)


def in_play(tap: str, value: int) -> tuple[ByteTest, ByteTest]:
    """The byte is `value` while the game is played: before a file is loaded, memory is zero."""
    return equals("game_state", 2), equals(tap, value)


def room_flag(group: int, room: int, number: int) -> ByteTest:
    """Bit `number` of the flags of a room that the layout was built with."""
    return bit(_flags_name(group, room), number)


def _flags_name(group: int, room: int) -> str:
    return f"room_flags_{group}_{room:02x}"
