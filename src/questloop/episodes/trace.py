"""What a runner records beside its rollout, as arrays of `T` steps by `N` slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.mode import Mode
from questloop.episodes.takeover import Takeover
from questloop.game.columns import Masks
from questloop.game.screen import Screen

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

MODES = tuple(Mode)  # what `Trace.mode` counts


@dataclass(frozen=True)
class EpisodeStart:
    """How an episode began."""

    seed: int | None = None
    state: str | None = None  # name of the start state; None: power-on


class Screens(Mapping[tuple[int, int], Screen]):
    """Screens by (t, n), in one array: hundreds of small ones take twice as long between processes."""

    def __init__(self, rows: Mapping[tuple[int, int], int], screens: NDArray[np.uint16]) -> None:
        """`screens` u16[P, 144, 160] and the row of each."""
        self._rows, self._screens = rows, screens

    def __getitem__(self, at: tuple[int, int]) -> Screen:
        screen: Screen = self._screens[self._rows[at]]
        return screen

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass
class Trace:
    """Arrays `[T, N]`; slot `n` of one trace goes on as slot `n` of the next.

    Row `t` is what step `t` led to: memory, observation and picture after the action, before any reset. Where
    an episode ends, that is its true last frame.
    """

    episode_step: NDArray[np.integer]  # [T, N], counts from 0 in every episode
    action: Bytes  # [T, N]
    mode: Bytes  # [T, N], index into MODES
    boundary: Bytes  # [T, N], of `episodes.boundary.Boundary`
    taps: Bytes  # [T, N, K]
    obs: Floats  # [T, N, D], what the next action is chosen on (`Rollout.next_observations`)
    reward_parts: Floats  # [T, N, P], unshaped
    milestones: Masks  # [T, N], bitmask of those that hold
    frames: Mapping[tuple[int, int], Screen] = field(default_factory=dict)  # by (t, n)
    starts: Mapping[tuple[int, int], EpisodeStart] = field(default_factory=dict)  # (t, n) of a first step
    scripts: Mapping[tuple[int, int], bytes] = field(default_factory=dict)
    """(t, n) of steps that were played in parts, and the button of each part (`game.batch.parts`); of a step
    at which the game stood still, none. Any other step is its action."""
    takeovers: Sequence[tuple[int, int, Takeover]] = ()  # t, n: a step of the episode, at or after its end

    @property
    def shape(self) -> tuple[int, int]:
        """`(T, N)`."""
        steps, slots = self.action.shape
        return steps, slots
