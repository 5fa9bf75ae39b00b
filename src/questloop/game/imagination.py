"""An observation as it would be in another room and at another stage of the quest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from questloop.game.actions import Action
from questloop.game.columns import Columns
from questloop.game.observation import DIMENSIONS, OBSERVATION_SIZE, Encoder
from questloop.game.profile import Profile

_TOLD = np.array(
    [dimension.name.startswith(("room_bit_", "group_", "quest_")) for dimension in DIMENSIONS], np.bool_
)
"""dimensions that follow from the room's number and the milestones alone"""


def imagine(
    observation: NDArray[np.float32], profile: Profile, place: int, reached: Iterable[str]
) -> NDArray[np.float32]:
    """`observation` f32 [128] moved to the room `place` (group * 256 + room), with the milestones `reached`.

    What else is in that room nobody knows: all other dimensions stay.
    """
    names = [milestone.key for milestone in profile.milestones]
    columns = Columns.zeros(1)
    columns.group[0], columns.room[0] = place >> 8, place & 255
    columns.milestones[0] = sum(1 << names.index(name) for name in reached)
    told = np.zeros((1, OBSERVATION_SIZE), np.float32)
    Encoder(1, profile, 1).encode(columns, np.array([Action.NOP], np.uint8), told)
    return np.where(_TOLD, told[0], observation)
