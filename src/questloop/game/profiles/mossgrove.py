"""The profile of Mossgrove, the bundled game, which keeps its state where Oracle of Seasons does."""

from __future__ import annotations

import numpy as np

from questloop.game.actions import Action
from questloop.game.guide import bundled_guide
from questloop.game.profile import Milestone, Profile, at_least, bit
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
from questloop.game.terrain import PuzzleRoom, Riddle, Terrain

BUSY_MODE = 0xC3F0
"""Not of the shared map: nonzero makes the game burn half of every frame before it halts, for benchmarks."""

_GROTTO, _VAULT = 4, 5
_DOOR_UP, _VISITED, _TAKEN, _BEATEN = 0, 4, 5, 7
_ROOMS = (
    (_GROTTO, 0x22),
    (_GROTTO, 0x21),
    (0, 0x00),
    (_VAULT, 0x30),
    (_VAULT, 0x31),
    (_VAULT, 0x22),
    (_VAULT, 0x20),
    (_VAULT, 0x11),
)
"""Rooms (group, room) whose flags the milestones ask for."""

MILESTONES = (
    Milestone("met_elder", "Heard the elder's request", (global_flag(0x22),)),
    Milestone("sword_1", "Took the twig blade", (treasure(0x05), at_least("sword_level", 1))),
    Milestone("grotto_entered", "Entered the Glowworm Grotto", in_play("dungeon", 1)),
    Milestone("grotto_key", "Took the grotto's small key", (room_flag(_GROTTO, 0x22, _TAKEN),)),
    Milestone("grotto_door", "Unlocked the grotto's door", (room_flag(_GROTTO, 0x21, _DOOR_UP),)),
    Milestone("essence_1", "Woke the Morning Light", (bit("essences", 0),)),
    Milestone("shield", "Bought the bark shield", (treasure(0x01),)),
    Milestone("season_bell", "Took the season bell", (treasure(0x07), bit("obtained_seasons", 7))),
    Milestone("pond_crossed", "Crossed the frozen pond", (room_flag(0, 0x00, _VISITED),)),
    Milestone("vault_entered", "Entered the Rootvault", in_play("dungeon", 2)),
    Milestone("vault_stone", "Solved the vault's stone room", (room_flag(_VAULT, 0x30, _BEATEN),)),
    Milestone("vault_door", "Unlocked the way to the vault's heart", (room_flag(_VAULT, 0x31, _DOOR_UP),)),
    Milestone("vault_lanterns", "Lit the vault's lanterns", (room_flag(_VAULT, 0x22, _BEATEN),)),
    Milestone("thornback", "Beat the Thornback", (room_flag(_VAULT, 0x20, _BEATEN),)),
    Milestone("sword_2", "Took the heartwood blade", (treasure(0x05), at_least("sword_level", 2))),
    Milestone("great_key", "Took the great key", (bit("boss_keys", 2),)),
    Milestone("murkroot", "Beat Murkroot", (room_flag(_VAULT, 0x11, _BEATEN),)),
    Milestone("essence_2", "Woke the Evening Light", (bit("essences", 1),)),
    Milestone("finished", "The grove is awake", (global_flag(0x28),)),
)

LAYOUT = oracle_layout(_ROOMS)

TERRAIN = Terrain(
    feet=4,
    floor=frozenset({0, 21, 22, 23, *range(24, 36), 72, 77}),
    pits=frozenset({7, 57}),
    water=frozenset(range(39, 48)),
    ledges_down=frozenset({56}),
    bushes=frozenset({38}),
    blocks=frozenset({8}),
    plates=frozenset({9}),
    buttons=frozenset({10}),
    torches=frozenset({14}),
    chests=frozenset({12}),
    signs=frozenset({51}),
    doors=frozenset({17, 55, 66, 68, 78}),
    puzzles={
        (_GROTTO, 0x22): PuzzleRoom(Riddle.ENEMIES, 1 << _TAKEN),
        (_GROTTO, 0x11): PuzzleRoom(Riddle.BLOCK, 1 << _BEATEN),
        (_VAULT, 0x30): PuzzleRoom(Riddle.BLOCK, 1 << _TAKEN),
        (_VAULT, 0x32): PuzzleRoom(Riddle.BUTTON, 1 << _BEATEN),
        (_VAULT, 0x22): PuzzleRoom(Riddle.TORCHES, 1 << _TAKEN),
        (_VAULT, 0x20): PuzzleRoom(Riddle.ENEMIES, 1 << _BEATEN),  # Thornback
        (_VAULT, 0x11): PuzzleRoom(Riddle.ENEMIES, 1 << _BEATEN),  # Murkroot
    },
)
"""Numbers of the metatiles; a test compares them with the game's source. Where a chest appears, the room is
solved once it is opened."""

PROFILE = Profile(
    name="mossgrove",
    titles=("MOSSGROVE",),
    layout=LAYOUT,
    decode=OracleDecoder(LAYOUT),
    milestones=MILESTONES,
    items=ITEMS,
    goal="finished",
    room_top=0,
    action_mask=np.array([action is not Action.START for action in Action]),
    details=DETAILS,
    terrain=TERRAIN,
    sanity=SANITY,
    walkthrough="mossgrove.inputs",
    guide=bundled_guide("mossgrove"),
)
