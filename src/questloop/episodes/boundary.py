"""Where an episode's line of steps is cut."""

from enum import IntEnum


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
