"""Records steps for segments while they are played."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.trace import EpisodeStart, Trace
from questloop.game.columns import Columns

_ITEMS = ("key", "sword", "essence")


class EventWatch:
    """Tells which slots' next frame is worth a picture: a room change, damage, a dialog, an item.

    An event is known only after its tick, which was not rendered; the frame after it is the one to draw.
    """

    def __init__(self, reward_names: tuple[str, ...]) -> None:
        self._items = [reward_names.index(name) for name in _ITEMS]
        self._before: Columns | None = None

    def forget(self) -> None:
        """Begin anew: the next step is compared with nothing."""
        self._before = None

    def __call__(self, columns: Columns, parts: NDArray[np.float32]) -> NDArray[np.bool_]:
        """`bool[N]` for the step that led to `columns` and paid `parts[N, P]`."""
        event = (parts[:, self._items] != 0).any(axis=1)
        before, self._before = self._before, columns
        if before is not None:
            event |= columns.place != before.place
            event |= columns.health < before.health
            event |= columns.text_active & ~before.text_active
        return event


class Tape:
    """A trace in the making: preallocated rows, filled step by step."""

    def __init__(self, steps: int, slots: int, taps: int, observation: int, parts: int) -> None:
        shape = (steps, slots)
        self.t = 0
        self.trace = Trace(
            episode_step=np.zeros(shape, np.int32),
            action=np.zeros(shape, np.uint8),
            mode=np.zeros(shape, np.uint8),
            boundary=np.zeros(shape, np.uint8),
            taps=np.zeros((*shape, taps), np.uint8),
            obs=np.zeros((*shape, observation), np.float32),
            reward_parts=np.zeros((*shape, parts), np.float32),
            milestones=np.zeros(shape, np.uint64),
        )
        self._frames: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self._starts: dict[tuple[int, int], EpisodeStart] = {}
        self.trace.frames, self.trace.starts = self._frames, self._starts

    def add(
        self,
        age: NDArray[np.int64],
        action: NDArray[np.uint8],
        boundary: NDArray[np.uint8],
        taps: NDArray[np.uint8],
        obs: NDArray[np.float32],
        parts: NDArray[np.float32],
        milestones: NDArray[np.uint64],
    ) -> None:
        """Append a step, as it was before any reset; `age[N]` counts the steps of each episode from 0."""
        trace, t = self.trace, self.t
        trace.episode_step[t] = age
        trace.action[t] = action
        trace.boundary[t] = boundary
        trace.taps[t] = taps
        trace.obs[t] = obs
        trace.reward_parts[t] = parts
        trace.milestones[t] = milestones
        self.t += 1

    def picture(self, slot: int, frame: NDArray[np.uint8]) -> None:
        """The screen `slot` showed in the step that `add` appends next."""
        self._frames[self.t, slot] = frame

    def start(self, slot: int, start: EpisodeStart) -> None:
        """The step that `add` appends next is the first one of an episode of `slot`."""
        self._starts[self.t, slot] = start
