"""The profile of Oracle of Seasons (USA), played from the user's own ROM."""

from __future__ import annotations

from questloop.game.profile import ByteTest, Milestone, Profile, at_least, bit, equals
from questloop.game.profiles.oracle_decoder import OracleDecoder
from questloop.game.profiles.oracle_memory import (
    DETAILS,
    ITEMS,
    SANITY,
    global_flag,
    in_play,
    oracle_layout,
    room_flag,
    treasure,
)
from questloop.game.profiles.oracle_terrain import TERRAIN

_D2_CHESTS = {
    "small_key_1": (0x2D, "the first small key"),
    "small_key_2": (0x31, "the second small key"),
    "map": (0x2B, "the map"),
    "compass": (0x36, "the compass"),
    "boss_key": (0x24, "the boss key"),
}
"""Rooms of group 4 whose chests hold them."""

_ROOMS = (
    *((0, 0x0D), (0, 0x81), (0, 0x96), (0, 0xD9)),
    *((4, 0x06), (4, 0x0B), (4, 0x12), (4, 0x21), (4, 0x29)),
    *((4, room) for room, _ in _D2_CHESTS.values()),
)

_SPRING, _SUMMER, _AUTUMN, _WINTER = range(4)
_OPENED = 7  # keyhole, gate, miniboss, boss
_ITEM_TAKEN = 5

MILESTONES = (
    Milestone("pregame_over", "The opening scene is over", (global_flag(0x21),)),
    Milestone("din_taken", "Din is taken; menus open", (global_flag(0x0A),)),
    Milestone("impa_request", "Impa asked for help", (global_flag(0x22),)),
    Milestone("heros_cave", "Entered Hero's Cave", in_play("dungeon", 0)),
    Milestone("sword", "Took the wooden sword", (treasure(0x05), at_least("sword_level", 1))),
    Milestone("sword_chest", "Opened the sword's chest", (room_flag(4, 0x06, _ITEM_TAKEN),)),
    Milestone("maku_gate", "Opened the Maku tree's gate", (room_flag(0, 0xD9, _OPENED),)),
    Milestone("maku_tree", "Met the Maku tree", in_play("group", 2)),
    Milestone("gnarled_key_dropped", "The gnarled key fell", (global_flag(0x18),)),
    Milestone("gnarled_key", "Took the gnarled key", (treasure(0x42),)),
    Milestone("d1_unlocked", "Unlocked the Gnarled Root Dungeon", (room_flag(0, 0x96, _OPENED),)),
    Milestone("d1_entered", "Entered the Gnarled Root Dungeon", in_play("dungeon", 1)),
    Milestone("d1_small_key", "Holds a small key of dungeon 1", (at_least("small_keys", 1, 1),)),
    Milestone("d1_map", "Took dungeon 1's map", (bit("maps", 1),)),
    Milestone("d1_compass", "Took dungeon 1's compass", (bit("compasses", 1),)),
    Milestone("d1_boss_key", "Took dungeon 1's boss key", (bit("boss_keys", 1),)),
    Milestone("seed_satchel", "Took the seed satchel", (treasure(0x19),)),
    Milestone("ember_seeds", "Took ember seeds", (treasure(0x20),)),
    Milestone("d1_miniboss", "Beat the Goriya brothers", (room_flag(4, 0x0B, _OPENED),)),
    Milestone("d1_boss", "Beat Aquamentus", (room_flag(4, 0x12, _OPENED),)),
    Milestone("essence_1", "Took the Fertile Soil", (bit("essences", 0),)),
    Milestone("shovel", "Took the shovel", (treasure(0x15),)),
    Milestone("subrosia", "Reached Subrosia", in_play("group", 1)),
    Milestone("ribbon", "Took the ribbon", (treasure(0x46),)),
    Milestone("rosa_date", "Took Rosa out", (global_flag(0x0C),)),
    Milestone("star_ore", "Found the star ore", (global_flag(0x0E),)),
    Milestone("rod", "Took the Rod of Seasons", (treasure(0x07),)),
    Milestone("winter", "Learned winter", (bit("obtained_seasons", _WINTER),)),
    Milestone("bracelet", "Took the power bracelet", (treasure(0x16),)),
    Milestone("d2_boss", "Beat Dodongo", (room_flag(4, 0x29, _OPENED),)),
    Milestone("essence_2", "Took the Gift of Time", (bit("essences", 1),)),
    Milestone("flute", "Won a companion's flute", (treasure(0x0E),)),
    Milestone("summer", "Learned summer", (bit("obtained_seasons", _SUMMER),)),
    Milestone("floodgate_key", "Took the floodgate key", (treasure(0x43),)),
    Milestone("d3_unlocked", "Opened the floodgate", (room_flag(0, 0x81, _OPENED),)),
    Milestone("feather", "Took Roc's feather", (treasure(0x17),)),
    Milestone("essence_3", "Took the Bright Sun", (bit("essences", 2),)),
    Milestone("spring", "Learned spring", (bit("obtained_seasons", _SPRING),)),
    Milestone("flippers", "Took the flippers", (treasure(0x2E),)),
    Milestone("dragon_key", "Took the dragon key", (treasure(0x44),)),
    Milestone("d4_unlocked", "Unlocked the Dancing Dragon Dungeon", (room_flag(0, 0x0D, _OPENED),)),
    Milestone("slingshot", "Took the slingshot", (treasure(0x13),)),
    Milestone("essence_4", "Took the Soothing Rain", (bit("essences", 3),)),
    Milestone("moblin_keep", "Blew up the Moblins' keep", (global_flag(0x16),)),
    Milestone("temple_unblocked", "Cleared the way to autumn", (global_flag(0x0D),)),
    Milestone("autumn", "Learned autumn", (bit("obtained_seasons", _AUTUMN),)),
    Milestone("magnet_gloves", "Took the magnetic gloves", (treasure(0x08),)),
    Milestone("essence_5", "Took the Nurturing Warmth", (bit("essences", 4),)),
    Milestone(
        "jewels", "Took the four jewels", (treasure(0x4C), treasure(0x4D), treasure(0x4E), treasure(0x4F))
    ),
    Milestone(
        "jewels_placed",
        "Placed them in the Tarm Ruins' gate",
        (ByteTest("inserted_jewels", 0, 0xF, 0xF, 0xF),),
    ),
    Milestone("noble_sword", "Took the noble sword", (at_least("sword_level", 2),)),
    Milestone("boomerang_2", "Took the magical boomerang", (at_least("boomerang_level", 2),)),
    Milestone("essence_6", "Took the Blowing Wind", (bit("essences", 5),)),
    Milestone("pirate_bell", "Took the pirate's bell", (treasure(0x4A),)),
    Milestone("ship_docked", "The pirate ship docked", (global_flag(0x17),)),
    Milestone("cape", "Took Roc's cape", (at_least("feather_level", 2),)),
    Milestone("essence_7", "Took the Seed of Life", (bit("essences", 6),)),
    Milestone("essence_8", "Took all eight essences", (equals("essences", 0xFF),)),
    Milestone("maku_seed", "Took the Maku seed", (global_flag(0x19),)),
    Milestone("castle_open", "The castle's barrier fell", (global_flag(0x24),)),
    Milestone("onox_beaten", "Beat Onox", (ByteTest("cutscene", 0, 0xFF, 0x09, 0x0A),)),
    Milestone("finished", "Freed Din", (global_flag(0x28),)),
)

LAYOUT = oracle_layout(_ROOMS)

PROFILE = Profile(
    name="oracle_of_seasons",
    titles=("ZELDA DIN",),
    layout=LAYOUT,
    decode=OracleDecoder(LAYOUT),
    milestones=MILESTONES,
    items=ITEMS,
    goal="finished",
    details=DETAILS,
    sanity=SANITY,
    terrain=TERRAIN,
)
