"""What follows a step: the episode goes on, ended, was cut at its limit, or changed hands."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Boundary(IntEnum):
    """What follows a step. Stored as u8.

    `TERMINATED`: the episode is over, nothing follows. `TRUNCATED`: it was cut at its step limit, the state
    that would follow is the final observation. `HANDOVER`: an epoch or a takeover cuts the rollout, the
    episode goes on in the next row.
    """

    NONE = 0
    TERMINATED = 1
    TRUNCATED = 2
    HANDOVER = 3


def ends_episode(boundary: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where an array of boundaries ends an episode; a handover does not."""
    ended: NDArray[np.bool_] = (boundary == Boundary.TERMINATED) | (boundary == Boundary.TRUNCATED)
    return ended
