"""Nine Coins, as Questloop plays it."""

import numpy as np

from questloop.game.actions import Action, Chord, policy_actions
from questloop.game.columns import Columns
from questloop.game.profile import ByteRange, Milestone, Profile, Sanity, at_least, equals
from questloop.game.taps import Tap, TapLayout

LAYOUT = TapLayout(
    [
        # name, bank (None outside D000-DFFF), address, bytes (1 where it is left out)
        Tap("hero_y", 1, 0xD00B),
        Tap("hero_x", 1, 0xD00D),
        Tap("room", 1, 0xD010),
        Tap("facing", 1, 0xD011),
        Tap("playing", None, 0xC300),
        Tap("coins", None, 0xC301),
        Tap("lit", None, 0xC30B),
    ]
)
WIDE = 3  # rooms side by side


def decode(taps):
    """Taps u8[N, K] to Columns: begin with zeros, fill in what the game has."""
    columns = Columns.zeros(len(taps))
    hero_y, hero_x, room, facing, playing, coins, _ = taps.T.astype(np.int32)
    columns.y, columns.x = hero_y, hero_x
    columns.tile = (hero_y >> 4 << 4) | (hero_x >> 4)
    columns.room = (room // WIDE % 16) << 4 | room % WIDE  # row and column on the map, in its nibbles
    columns.direction = facing & 3
    columns.rupees = coins
    columns.has_control = playing == 1
    return columns


PROFILE = Profile(
    name="ninecoins",
    titles=("NINE COINS",),
    layout=LAYOUT,
    decode=decode,
    milestones=(
        Milestone("coin_1", "Found a coin", (at_least("coins", 1),)),
        Milestone("coin_3", "Found three coins", (at_least("coins", 3),)),
        Milestone("coin_6", "Found six coins", (at_least("coins", 6),)),
        Milestone("lit", "Lit the lantern", (equals("lit", 1),)),
    ),
    goal="lit",
    sanity=Sanity(maps={0: (WIDE, WIDE)}, ranges=(ByteRange("coins", 0, 9), ByteRange("room", 0, 8))),
    room_top=0,
    action_mask=policy_actions(
        Chord.A_UP, Chord.A_DOWN, Chord.A_LEFT, Chord.A_RIGHT, without=(Action.B, Action.START)
    ),
)
