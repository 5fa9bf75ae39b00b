"""What an environment reports about its episodes after a rollout, beside observations and rewards."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from questloop.exploration.archive import Delta
from questloop.game.columns import Masks
from questloop.planner.copilot import CopilotReport


@dataclass
class SlotReport:
    """What only the environment knows about the episodes of a rollout; arrays over its slots."""

    finished_rooms: list[int] = field(default_factory=list)  # of each finished episode, in (t, n) order
    finished_milestones: list[int] = field(default_factory=list)  # bitmask reached in each
    finished_starts: list[str] = field(default_factory=list)  # name of the start state of each
    delta: Delta | None = None  # for the archive
    rooms: NDArray[np.int64] | None = None  # [N], of the running episodes
    milestones: Masks | None = None  # [N], bitmask reached in the running episodes
    copilots: dict[str, CopilotReport] = field(default_factory=dict)  # by `Copilot.name`
    aim_steps: dict[str, int] = field(default_factory=dict)  # steps by the guide's next aim
    room_steps: dict[int, int] = field(default_factory=dict)  # steps with control by group * 256 + room
    tile_steps: dict[int, int] = field(default_factory=dict)  # the same by 256 * that + metatile
