"""The memory map of Oracle of Seasons on constructed images: a row of the map a case."""

import numpy as np
import pytest

from questloop.game.profiles.oracle_memory import DETAILS, ITEMS, TAPS
from questloop.game.profiles.oracle_of_seasons import LAYOUT, PROFILE
from questloop.game.state import Enemy, Facing, Season, decode


class Image:
    """A constructed memory: banked work RAM and the rest, read as PyBoy's memory view is."""

    def __init__(self, **at: int) -> None:
        self._bytes: dict[object, int] = {}
        for name, value in at.items():
            self.put(name, value)

    def put(self, name: str, value: int) -> None:
        """`C6A2` or `1_D00B`: bank and address in hex."""
        bank, _, address = name.rpartition("_")
        self._bytes[(int(bank), int(address, 16)) if bank else int(address, 16)] = value

    def __getitem__(self, key):
        return self._bytes.get(key, 0)


IN_PLAY = {"C2EE": 2, "C2EF": 1, "CD00": 1, "CC48": 0xD0, "CC55": 0xFF, "CC80": 0xFF}


def row(**at: int) -> np.ndarray:
    out = np.zeros(LAYOUT.size, np.uint8)
    LAYOUT.read(Image(**(IN_PLAY | at)), out.data)
    return out


def columns(**at: int):
    return PROFILE.columns(row(**at)[np.newaxis])


def state(**at: int):
    return decode(row(**at), PROFILE)


# What stands in memory, the column and its value.
DECODED = [
    # position and hero
    ({"1_D00B": 0x38, "1_D00D": 0x48}, {"y": 0x38, "x": 0x48, "tile": 0x34}),
    ({"1_D00B": 0xA8, "1_D00D": 0xE8, "CC4A": 1}, {"y": 168, "x": 232, "tile": 0xAE, "large_room": True}),
    ({"1_D00B": 1, "1_D10B": 0x50, "1_D10D": 0x60, "CC48": 0xD1}, {"y": 0x50, "x": 0x60, "riding": True}),
    ({"1_D10B": 0x50, "1_D00B": 7}, {"y": 7, "riding": False}),
    ({"1_D008": 3}, {"direction": 3}),
    ({"1_D008": 3, "1_D108": 1, "CC48": 0xD1}, {"direction": 1}),
    ({"1_D00F": 0xF8}, {"height": -8}),
    ({"1_D00F": 0x00}, {"height": 0}),
    ({"1_D02B": 0x20}, {"invincible": 0x20}),
    ({"1_D004": 0x01}, {"hero_state": 1, "dying": False}),
    ({"1_D004": 0x03}, {"hero_state": 3, "dying": True}),
    ({"CC78": 0x01}, {"swimming": True}),
    ({"CC75": 0x83}, {"carrying": True}),
    ({"CC80": 0x02}, {"pushing": True}),
    ({"CC80": 0xFF}, {"pushing": False}),
    ({"CC65": 0x02}, {"pushing": False}),  # where another game of the series keeps it
    # place
    ({"CC49": 1, "CC4C": 0xB6}, {"group": 1, "room": 0xB6, "place": 0x1B6}),
    ({"CC4E": 3}, {"season": 3}),
    ({"CC55": 0xFF}, {"dungeon": -1}),
    ({"CC55": 0}, {"dungeon": 0}),
    ({"CC55": 8, "CC57": 2}, {"dungeon": 8, "floor": 2}),
    # status and inventory
    ({"C6A2": 11, "C6A3": 12}, {"health": 11, "max_health": 12}),
    ({"C6A5": 0x99, "C6A6": 0x09}, {"rupees": 999}),
    ({"C6A5": 0x10}, {"rupees": 10}),
    ({"C6AA": 0x10}, {"bombs": 10}),
    ({"C6B5": 0x20, "C6B9": 0x05}, {"seeds": 25}),
    ({"C6A9": 1}, {"shield_level": 0}),  # a new file has level 1 without the shield
    ({"C6A9": 2, "C692": 0x02}, {"shield_level": 2}),
    ({"C6AC": 2}, {"sword_level": 2}),
    ({"C6B0": 0x80}, {"seasons_owned": 0}),  # the rod alone
    ({"C6B0": 0x88}, {"seasons_owned": 0b1000}),
    ({"C6BB": 0b101}, {"essences": 0b101, "essence_count": 2}),
    ({"C66F": 2, "C670": 1}, {"small_keys": 3, "keys_here": 0}),
    ({"C66F": 2, "CC55": 1}, {"keys_here": 2}),
    ({"C67A": 0b10}, {"boss_keys": 1, "boss_key_here": False}),
    ({"C67A": 0b10, "CC55": 1}, {"boss_keys": 1, "boss_key_here": True}),
    ({"C67A": 0b10, "CC55": 2}, {"boss_key_here": False}),
    ({"C67B": 0b1, "CC55": 8}, {"boss_keys": 1, "boss_key_here": True}),
    # dialog, menus, control
    ({"CBA0": 1, "CBA2": 0x34, "CBA3": 0x16}, {"text_active": True, "text_index": 0x1234}),
    ({"CBA0": 0, "CBA2": 0x34, "CBA3": 0x16}, {"text_active": False, "text_index": -1}),
    ({"CBA0": 0x80, "CBA1": 1}, {"text_active": True, "text_choice": True}),
    ({"CBA0": 0, "CBA1": 1}, {"text_choice": False}),
    ({"CBCB": 1}, {"menu_open": 1}),
    ({"CC34": 1}, {"dying": True}),
    ({"CC35": 1}, {"game_over": True}),
    ({"CD00": 8}, {"transition": True}),
    ({"C4AB": 3}, {"transition": True}),
    ({"CC67": 1}, {"transition": True}),
    ({"C4AC": 9, "C4AD": 9}, {"transition": False, "x": 0, "y": 0}),  # fade speed, not a position
    ({}, {"has_control": True, "transition": False, "dying": False, "game_over": False}),
    *(
        ({name: value}, {"has_control": False})
        for name, value in [
            ("C2EE", 1),
            ("C2EF", 3),
            ("CBA0", 1),
            ("CBCB", 2),
            ("C4AB", 1),
            ("CD00", 4),
            ("CCA4", 0x01),
            ("CCA4", 0x80),
        ]
    ),
    ({"CCA4": 0x04}, {"has_control": True}),  # enemies frozen
    # room
    ({"CC30": 3}, {"enemies": 3}),
    ({"CCBA": 0b11}, {"triggers": 0b11}),
    ({"CCA9": 2}, {"torches": 2}),
    ({"CC31": 1, "CC32": 2, "CC33": 3}, {"switches": 0x030201}),
    ({"1_D140": 1}, {"block_moving": True}),
    ({"CC49": 0, "CC4C": 0xA7, "C7A7": 0x10}, {"room_flags": 0x10}),
    ({"CC49": 1, "CC4C": 0x02, "C802": 0x11}, {"room_flags": 0x11}),
    ({"CC49": 2, "CC4C": 0x0B, "C80B": 0x12}, {"room_flags": 0x12}),
    ({"CC49": 3, "CC4C": 0x98, "C898": 0x20}, {"room_flags": 0x20}),
    ({"CC49": 4, "CC4C": 0x06, "C906": 0x21}, {"room_flags": 0x21}),
    ({"CC49": 5, "CC4C": 0x50, "CA50": 0x80}, {"room_flags": 0x80}),
    ({"CC49": 6, "CC4C": 0x09, "C909": 0x22}, {"room_flags": 0x22}),
    ({"CC49": 7, "CC4C": 0xFF, "CAFF": 0x23}, {"room_flags": 0x23}),
    ({"CC49": 9, "CC4C": 0x01, "C701": 0xFF}, {"room_flags": 0}),
]


@pytest.mark.parametrize(("memory", "expected"), DECODED)
def test_columns(memory, expected):
    decoded = columns(**memory)
    assert {name: getattr(decoded, name)[0] for name in expected} == expected


def test_collisions_are_eleven_rows_of_sixteen():
    decoded = columns(CE00=0x0F, CE14=0x03, CEAE=0x01)
    assert decoded.collisions.shape == (1, 11, 16)
    assert decoded.collisions[0, 0, 0] == 0x0F
    assert decoded.collisions[0, 1, 4] == 0x03
    assert decoded.collisions[0, 10, 14] == 0x01


def test_enemies_are_read_from_every_page_of_bank_1_and_only_where_enabled():
    memory = {"1_D080": 1, "1_D081": 9, "1_D08B": 40, "1_D08D": 50, "1_D0A9": 4}
    memory |= {"1_DF80": 3, "1_DF81": 0x70, "1_DFA9": 8, "1_D181": 5, "2_D280": 1, "2_D281": 6}
    decoded = state(**memory)
    assert decoded.enemies == (Enemy(kind=9, x=50, y=40, health=4), Enemy(kind=0x70, x=0, y=0, health=8))


@pytest.mark.parametrize(
    ("memory", "owned"),
    [
        ({"C692": 0x02, "C6A9": 2}, {"shield": 2}),
        ({"C692": 0x20, "C6AC": 3}, {"sword": 3}),
        ({"C692": 0x08}, {"bombs": 1}),
        ({"C692": 0x40, "C6B1": 2}, {"boomerang": 2}),
        ({"C692": 0x80}, {"rod": 1}),
        ({"C693": 0x01}, {"magnet_gloves": 1}),
        ({"C693": 0x40}, {"flute": 1}),
        ({"C694": 0x08, "C6B3": 2}, {"slingshot": 2}),
        ({"C694": 0x20}, {"shovel": 1}),
        ({"C695": 0x02, "C6AE": 3}, {"satchel": 3}),
        ({"C694": 0x80, "C6B4": 2}, {"feather": 2}),
        ({"C694": 0x80, "C6B4": 0}, {"feather": 1}),
        ({"C694": 0x40}, {"bracelet": 1}),
        ({"C697": 0x40}, {"flippers": 1}),
        ({"C69A": 0x04}, {"gnarled_key": 1}),
        ({"C69A": 0x18}, {"floodgate_key": 1, "dragon_key": 1}),
        ({"C6AC": 1}, {}),
    ],
)
def test_items_follow_treasure_flags(memory, owned):
    assert state(**memory).items == owned


# The milestones of normal play, in order: what stands in memory, and the keys that hold then.
MILESTONES = [
    ({"CC55": 2}, {"d2_entered"}),
    ({"C92D": 0x20}, {"d2_small_key_1"}),
    ({"C931": 0x20}, {"d2_small_key_2"}),
    ({"C92B": 0x20}, {"d2_map"}),
    ({"C936": 0x20}, {"d2_compass"}),
    ({"C924": 0x20}, {"d2_boss_key"}),
    ({"C921": 0x80}, {"d2_miniboss"}),
    ({"C921": 0x20, "C924": 0x80, "C92D": 0x10}, set()),
    *(({"CC55": number}, {f"d{number}_entered"}) for number in range(3, 9)),
    ({"CC55": 9}, {"castle_entered"}),
    *(
        ({address: 0x80}, {f"d{number}_boss"})
        for number, address in enumerate(("C953", "C95F", "C98C", "C9D5", "CA50", "CA64"), 3)
    ),
    ({"C6CE": 0x02}, {"pregame_over"}),
    ({"C6CB": 0x04}, {"din_taken"}),
    ({"C6CE": 0x04}, {"impa_request"}),
    ({"CC55": 0}, {"heros_cave"}),
    ({"C692": 0x20, "C6AC": 1}, {"sword"}),
    ({"C692": 0x20}, set()),
    ({"C6AC": 1}, set()),
    ({"C906": 0x20}, {"sword_chest"}),
    ({"C906": 0x40}, set()),
    ({"C7D9": 0x80}, {"maku_gate"}),
    ({"CC49": 2}, {"maku_tree"}),
    ({"C6CD": 0x01}, {"gnarled_key_dropped"}),
    ({"C69A": 0x04}, {"gnarled_key"}),
    ({"C796": 0x80}, {"d1_unlocked"}),
    ({"CC55": 1}, {"d1_entered"}),
    ({"C66F": 1}, {"d1_small_key"}),
    ({"C66E": 1}, set()),
    ({"C67E": 0x02}, {"d1_map"}),
    ({"C67C": 0x02}, {"d1_compass"}),
    ({"C67A": 0x02}, {"d1_boss_key"}),
    ({"C67A": 0x01}, set()),
    ({"C695": 0x02}, {"seed_satchel"}),
    ({"C696": 0x01}, {"ember_seeds"}),
    ({"C90B": 0x80}, {"d1_miniboss"}),
    ({"C912": 0x80}, {"d1_boss"}),
    ({"C6BB": 0x01}, {"essence_1"}),
    ({"C694": 0x20}, {"shovel"}),
    ({"CC49": 1}, {"subrosia"}),
    ({"C69A": 0x40}, {"ribbon"}),
    ({"C6CB": 0x10}, {"rosa_date"}),
    ({"C6CB": 0x40}, {"star_ore"}),
    ({"C692": 0x80}, {"rod"}),
    ({"C6B0": 0x80}, set()),
    ({"C6B0": 0x88}, {"winter"}),
    ({"C694": 0x40}, {"bracelet"}),
    ({"C929": 0x80}, {"d2_boss"}),
    ({"C6BB": 0x02}, {"essence_2"}),
    ({"C693": 0x40}, {"flute"}),
    ({"C6B0": 0x82}, {"summer"}),
    ({"C69A": 0x08}, {"floodgate_key"}),
    ({"C781": 0x80}, {"d3_unlocked"}),
    ({"C694": 0x80}, {"feather"}),
    ({"C6BB": 0x04}, {"essence_3"}),
    ({"C6B0": 0x81}, {"spring"}),
    ({"C697": 0x40}, {"flippers"}),
    ({"C69A": 0x10}, {"dragon_key"}),
    ({"C70D": 0x80}, {"d4_unlocked"}),
    ({"C694": 0x08}, {"slingshot"}),
    ({"C6BB": 0x08}, {"essence_4"}),
    ({"C6CC": 0x40}, {"moblin_keep"}),
    ({"C6CB": 0x20}, {"temple_unblocked"}),
    ({"C6B0": 0x84}, {"autumn"}),
    ({"C693": 0x01}, {"magnet_gloves"}),
    ({"C6BB": 0x10}, {"essence_5"}),
    ({"C69B": 0x70}, set()),
    ({"C69B": 0xF0}, {"jewels"}),
    ({"C6E1": 0x0F}, {"jewels_placed"}),
    ({"C692": 0x20, "C6AC": 2}, {"sword", "noble_sword"}),
    ({"C6B1": 2}, {"boomerang_2"}),
    ({"C6BB": 0x20}, {"essence_6"}),
    ({"C69B": 0x04}, {"pirate_bell"}),
    ({"C6CC": 0x80}, {"ship_docked"}),
    ({"C6B4": 2}, {"cape"}),
    ({"C6BB": 0x40}, {"essence_7"}),
    ({"C6BB": 0xFF}, {f"essence_{i}" for i in range(1, 9)}),
    ({"C6CD": 0x02}, {"maku_seed"}),
    ({"C6CE": 0x10}, {"castle_open"}),
    ({"C2EF": 0x09}, {"onox_beaten"}),
    ({"C2EF": 0x0A}, {"onox_beaten"}),
    ({"C6CF": 0x01}, {"finished"}),
]


@pytest.mark.parametrize(("memory", "expected"), MILESTONES)
def test_milestones(memory, expected):
    assert set(state(**memory).milestones) == expected


def test_every_milestone_has_a_case():
    assert {key for _, expected in MILESTONES for key in expected} == {m.key for m in PROFILE.milestones}


def test_masks_have_a_bit_for_every_milestone():
    assert len(PROFILE.milestones) > 64
    mask = columns(C6CE=0x02, C6CF=0x01).milestones[0]
    assert mask == 1 | 1 << len(PROFILE.milestones) - 1
    assert PROFILE.milestone_names(mask) == ["pregame_over", "finished"]


def test_power_on_holds_no_milestone():
    assert decode(np.zeros(LAYOUT.size, np.uint8), PROFILE).milestones == ()


def test_state_and_its_json():
    decoded = state(
        CC49=4, CC4C=0x12, CC55=1, CC4E=3, C6B0=0x88, C6A2=10, C6A3=12, C6A5=0x25, C66F=1, C6BB=0x01, CCBA=1,
        **{"1_D00B": 40, "1_D00D": 56, "1_D008": 1, "1_D080": 1, "1_D081": 2, "1_D08D": 60},
    )  # fmt: skip
    assert decoded.direction is Facing.RIGHT
    assert decoded.season is Season.WINTER
    assert decoded.essences == (1,)
    assert decoded.tile == (3, 2)
    assert decoded.to_json() == {
        "room": "4:12",
        "pos": [56, 40],
        "face": "right",
        "health": [10, 12],
        "dungeon": 1,
        "season": "winter",
        "rupees": 25,
        "keys": 1,
        "keys_here": 1,
        "essences": [1],
        "enemies": [[2, 60, 0, 0]],
        "buttons": 1,
        "milestones": ["d1_entered", "d1_small_key", "essence_1", "winter"],
    }


def test_solid_tiles_of_a_room():
    decoded = state(CE34=0x0C)
    assert decoded.solid(4, 3)
    assert not decoded.solid(3, 4)
    assert decoded.solid(10, 0)
    assert decoded.solid(0, 8)
    assert decoded.solid(-1, 0)
    assert not state(CC4A=1).solid(14, 10)


# Every row of the reference that is read, hot or on demand: name, bank, address, bytes.
REFERENCE = [
    ("health", None, 0xC6A2, 1), ("max_health", None, 0xC6A3, 1), ("heart_pieces", None, 0xC6A4, 1),
    ("ore_chunks", None, 0xC6A7, 2), ("max_bombs", None, 0xC6AB, 1), ("bombchus", None, 0xC6AD, 1),
    ("satchel_level", None, 0xC6AE, 1), ("flute", None, 0xC6AF, 1), ("magnet_polarity", None, 0xC6B2, 1),
    ("gasha_seeds", None, 0xC6BA, 1), ("trade_item", None, 0xC6BC, 1), ("pirate_bell", None, 0xC6BD, 1),
    ("ring_box", None, 0xC6C0, 5), ("active_ring", None, 0xC6C5, 1), ("ring_box_level", None, 0xC6C6, 1),
    ("rings", None, 0xC616, 8), ("unappraised_rings", None, 0xC5C0, 64), ("inventory", None, 0xC680, 18),
    ("small_keys", None, 0xC66E, 12), ("boss_keys", None, 0xC67A, 2), ("compasses", None, 0xC67C, 2),
    ("maps", None, 0xC67E, 2), ("visited_floors", None, 0xC662, 12), ("treasures", None, 0xC692, 10),
    ("all_global_flags", None, 0xC6CA, 16), ("inserted_jewels", None, 0xC6E1, 1),
    ("companion_states", None, 0xC643, 3), ("maku_stage", None, 0xCC39, 1), ("deaths", None, 0xC61E, 2),
    ("enemies_killed", None, 0xC620, 2), ("playtime", None, 0xC622, 4), ("signs_destroyed", None, 0xC626, 1),
    ("rupees_collected", None, 0xC627, 2), ("respawn_on_load", None, 0xC62B, 13),
    ("minimap", None, 0xC63A, 4), ("hero_angle", None, 0xCC47, 1), ("in_air", None, 0xCC77, 1),
    ("push_counter", None, 0xCC84, 1), ("camera", None, 0xFFA8, 4), ("local_respawn", None, 0xCC3D, 3),
    ("loading_room", None, 0xCC4B, 1), ("active_collisions", None, 0xCC4F, 1),
    ("tileset_flags", None, 0xCC50, 1), ("dungeon_position", None, 0xCC56, 1),
    ("dungeon_room_properties", None, 0xCC58, 1), ("warp_destination", None, 0xCC63, 5),
    ("text_option", None, 0xCBA5, 1), ("text_flags", None, 0xCBAE, 1), ("text_position", None, 0xCBAC, 1),
    ("menu_disabled", None, 0xCC02, 1), ("collisions_disabled", None, 0xCBCA, 1),
    ("cutscene_trigger", None, 0xCC04, 1), ("cutscene_state", None, 0xCC03, 1),
    ("screen_transition", None, 0xCD02, 3), ("keys_pressed", None, 0xC481, 2),
    ("simulated_input", None, 0xCBC3, 1), ("enemies_killed_list", None, 0xCC1F, 17),
    ("block_push_angle", None, 0xCCC0, 1), ("pushed_block_object", 1, 0xD140, 64),
    ("active_tile", None, 0xCCB3, 4), ("on_chest", None, 0xCCB9, 1), ("in_shop", None, 0xCCEA, 1),
    ("room_layout", None, 0xCF00, 176), ("collisions", None, 0xCE00, 176), ("script_vars", None, 0xCFC0, 32),
    ("all_treasures", None, 0xC692, 16), ("hero", 1, 0xD000, 64), ("companion", 1, 0xD100, 64),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bank", "address", "length"), REFERENCE)
def test_reference_rows_are_tapped(name, bank, address, length):
    taps = {tap.name: tap for tap in (*TAPS, *DETAILS.taps)}
    assert (taps[name].bank, taps[name].address, taps[name].length) == (bank, address, length)


def test_items_are_sixteen():
    assert len(ITEMS) == len(set(ITEMS)) == 16
