"""The profile of Oracle of Seasons (USA), played from the user's own ROM."""

from __future__ import annotations

from questloop.game.guide import bundled_guide
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

_BOSS_ROOMS = {3: (4, 0x53), 4: (4, 0x5F), 5: (4, 0x8C), 6: (4, 0xD5), 7: (5, 0x50), 8: (5, 0x64)}
_ROOMS = (
    *((0, 0x0D), (0, 0x81), (0, 0x96), (0, 0xD9)),
    *((4, 0x06), (4, 0x0B), (4, 0x12), (4, 0x29)),
    *((4, 0x21), (4, 0x24), (4, 0x2B), (4, 0x2D), (4, 0x31), (4, 0x36)),
    *_BOSS_ROOMS.values(),
)

_SPRING, _SUMMER, _AUTUMN, _WINTER = range(4)
_OPENED = 7  # keyhole, gate, miniboss, boss
_ITEM_TAKEN = 5


def _entered(dungeon: int, title: str) -> Milestone:
    return Milestone(f"d{dungeon}_entered", f"Entered {title}", in_play("dungeon", dungeon))


def _boss(dungeon: int, name: str) -> Milestone:
    return Milestone(f"d{dungeon}_boss", f"Beat {name}", (room_flag(*_BOSS_ROOMS[dungeon], _OPENED),))


def _chest(key: str, title: str, room: int) -> Milestone:
    """A chest of a room of group 4 is open."""
    return Milestone(key, title, (room_flag(4, room, _ITEM_TAKEN),))


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
    _entered(2, "Snake's Remains"),
    _chest("d2_small_key_1", "Took dungeon 2's first small key", 0x2D),
    _chest("d2_small_key_2", "Took dungeon 2's second small key", 0x31),
    _chest("d2_map", "Took dungeon 2's map", 0x2B),
    _chest("d2_compass", "Took dungeon 2's compass", 0x36),
    Milestone("bracelet", "Took the power bracelet", (treasure(0x16),)),
    Milestone("d2_miniboss", "Beat Facade", (room_flag(4, 0x21, _OPENED),)),
    _chest("d2_boss_key", "Took dungeon 2's boss key", 0x24),
    Milestone("d2_boss", "Beat Dodongo", (room_flag(4, 0x29, _OPENED),)),
    Milestone("essence_2", "Took the Gift of Time", (bit("essences", 1),)),
    Milestone("flute", "Won a companion's flute", (treasure(0x0E),)),
    Milestone("summer", "Learned summer", (bit("obtained_seasons", _SUMMER),)),
    Milestone("floodgate_key", "Took the floodgate key", (treasure(0x43),)),
    Milestone("d3_unlocked", "Opened the floodgate", (room_flag(0, 0x81, _OPENED),)),
    _entered(3, "Poison Moth's Lair"),
    Milestone("feather", "Took Roc's feather", (treasure(0x17),)),
    _boss(3, "Mothula"),
    Milestone("essence_3", "Took the Bright Sun", (bit("essences", 2),)),
    Milestone("spring", "Learned spring", (bit("obtained_seasons", _SPRING),)),
    Milestone("flippers", "Took the flippers", (treasure(0x2E),)),
    Milestone("dragon_key", "Took the dragon key", (treasure(0x44),)),
    Milestone("d4_unlocked", "Unlocked the Dancing Dragon Dungeon", (room_flag(0, 0x0D, _OPENED),)),
    _entered(4, "the Dancing Dragon Dungeon"),
    Milestone("slingshot", "Took the slingshot", (treasure(0x13),)),
    _boss(4, "Gohma"),
    Milestone("essence_4", "Took the Soothing Rain", (bit("essences", 3),)),
    Milestone("moblin_keep", "Blew up the Moblins' keep", (global_flag(0x16),)),
    Milestone("temple_unblocked", "Cleared the way to autumn", (global_flag(0x0D),)),
    Milestone("autumn", "Learned autumn", (bit("obtained_seasons", _AUTUMN),)),
    _entered(5, "the Unicorn's Cave"),
    Milestone("magnet_gloves", "Took the magnetic gloves", (treasure(0x08),)),
    _boss(5, "Digdogger"),
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
    _entered(6, "the Ancient Ruins"),
    Milestone("boomerang_2", "Took the magical boomerang", (at_least("boomerang_level", 2),)),
    _boss(6, "Manhandla"),
    Milestone("essence_6", "Took the Blowing Wind", (bit("essences", 5),)),
    Milestone("pirate_bell", "Took the pirate's bell", (treasure(0x4A),)),
    Milestone("ship_docked", "The pirate ship docked", (global_flag(0x17),)),
    _entered(7, "the Explorer's Crypt"),
    Milestone("cape", "Took Roc's cape", (at_least("feather_level", 2),)),
    _boss(7, "Gleeok"),
    Milestone("essence_7", "Took the Seed of Life", (bit("essences", 6),)),
    _entered(8, "the Sword and Shield Maze"),
    _boss(8, "Medusa Head"),
    Milestone("essence_8", "Took all eight essences", (equals("essences", 0xFF),)),
    Milestone("maku_seed", "Took the Maku seed", (global_flag(0x19),)),
    Milestone("castle_open", "The castle's barrier fell", (global_flag(0x24),)),
    Milestone("castle_entered", "Entered Onox's castle", in_play("dungeon", 9)),
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
    guide=bundled_guide("oracle_of_seasons"),
)
