"""The profile of a new game to fill in: what `questloop profile new` writes."""

from __future__ import annotations

from questloop.game.rom import Rom

_TEMPLATE = '''\
"""{name}, as Questloop plays it.

Fill in the taps (find addresses with `questloop profile find`), then run
    questloop profile check {file}
    GAME_PROFILE={file} questloop doctor --rom {rom}
"""

import numpy as np

from questloop.game.columns import Columns
from questloop.game.profile import ByteRange, Milestone, Profile, Sanity, at_least, equals
from questloop.game.taps import Tap, TapLayout

LAYOUT = TapLayout(
    [
        # name, bank (None outside D000-DFFF), address, bytes (1 where it is left out)
        Tap("hero_y", None, 0xC000),  # pixels from the top of the room
        Tap("hero_x", None, 0xC001),
        Tap("room", None, 0xC002),
        Tap("playing", None, 0xC003),  # not 0 while the player moves the hero
    ]
)


def decode(taps):
    """Taps u8[N, K] to Columns: begin with zeros, fill in what the game has."""
    columns = Columns.zeros(len(taps))
    hero_y, hero_x, room, playing = taps.T.astype(np.int32)
    columns.y, columns.x = hero_y, hero_x
    columns.room = room
    columns.tile = (hero_y >> 4 << 4) | (hero_x >> 4)
    columns.has_control = playing != 0
    return columns


PROFILE = Profile(
    name={name!r},
    {known},
    layout=LAYOUT,
    decode=decode,
    milestones=(
        Milestone("second_room", "Came to room 2", (equals("room", 2), at_least("playing", 1))),
    ),
    sanity=Sanity(maps={{0: (16, 16)}}, ranges=(ByteRange("playing", 0, 1),)),
    room_top=0,  # first pixel row of the room on the screen; above it stands the status bar
)
'''


def skeleton(name: str, rom: Rom, file: str) -> str:
    """The text of a profile for `rom`, to be kept as `file`; a ROM without a title is known by its digest."""
    known = f"titles=({rom.title!r},)" if rom.title.strip() else f"titles=(),\n    sha256s=({rom.sha256!r},)"
    return _TEMPLATE.format(name=name, known=known, file=file, rom=rom.name)
