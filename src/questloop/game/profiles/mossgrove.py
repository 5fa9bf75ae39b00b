"""Mossgrove, the bundled game. It keeps its state where Oracle of Seasons does."""

from __future__ import annotations

from questloop.game.profile import Milestone, Profile, at_least, bit
from questloop.game.profiles.oracle_memory import (
    DETAILS,
    ITEMS,
    SANITY,
    OracleDecoder,
    oracle_layout,
    treasure,
)

_ROOMS: tuple[tuple[int, int], ...] = ()
"""Rooms (group, room) whose flags the milestones ask for."""

MILESTONES = (
    Milestone("sword", "Found the sword", (treasure(0x05), at_least("sword_level", 1))),
    Milestone("essence_1", "Took the first essence", (bit("essences", 0),)),
)

LAYOUT = oracle_layout(_ROOMS)

PROFILE = Profile(
    name="mossgrove",
    titles=("MOSSGROVE",),
    layout=LAYOUT,
    decode=OracleDecoder(LAYOUT),
    milestones=MILESTONES,
    items=ITEMS,
    goal="essence_1",
    details=DETAILS,
    sanity=SANITY,
    walkthrough="mossgrove.inputs",
)
