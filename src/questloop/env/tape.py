"""Records the steps of a rollout for segments, and decides which steps deserve a picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.trace import EpisodeStart, Screens, Trace
from questloop.game.batch import GameBatch
from questloop.game.columns import Columns, Masks
from questloop.game.screen import SCREEN_SHAPE, Screen

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
    """A trace in the making: rows filled step by step, and used again from trace to trace.

    A trace is valid until `rewind`. New memory would cost more than what is written into it.
    """

    def __init__(self, steps: int, slots: int, taps: int, observation: int, parts: int) -> None:
        shape = (steps, slots)
        self.steps = steps
        self.t = 0
        self._trace = Trace(
            episode_step=np.zeros(shape, np.int32),
            action=np.zeros(shape, np.uint8),
            mode=np.zeros(shape, np.uint8),
            boundary=np.zeros(shape, np.uint8),
            taps=np.zeros((*shape, taps), np.uint8),
            obs=np.zeros((*shape, observation), np.float32),
            reward_parts=np.zeros((*shape, parts), np.float32),
            milestones=np.zeros(shape, np.object_),
        )
        self._screens = np.zeros((max(1, steps * slots // 8), *SCREEN_SHAPE), np.uint16)
        self._pictured: dict[tuple[int, int], int] = {}
        self._starts: dict[tuple[int, int], EpisodeStart] = {}
        self._scripts: dict[tuple[int, int], bytes] = {}

    def rewind(self) -> None:
        """Begin a new trace in the place of the last one."""
        self.t = 0
        self._pictured, self._starts, self._scripts = {}, {}, {}

    def add(
        self,
        age: NDArray[np.int64],
        action: NDArray[np.uint8],
        boundary: NDArray[np.uint8],
        taps: NDArray[np.uint8],
        obs: NDArray[np.float32],
        parts: NDArray[np.float32],
        milestones: Masks,
        pressed: Mapping[int, bytes],
    ) -> None:
        """Append a step, as it was before any reset; `age[N]` counts the steps of each episode from 0, and
        `pressed` has the buttons of slots whose step was more, or less, than its action."""
        trace, t = self._trace, self.t
        trace.episode_step[t] = age
        trace.action[t] = action
        trace.boundary[t] = boundary
        trace.taps[t] = taps
        trace.obs[t] = obs
        trace.reward_parts[t] = parts
        trace.milestones[t] = milestones
        self._scripts |= {(t, slot): buttons for slot, buttons in pressed.items()}
        self.t += 1

    def picture(self, slot: int) -> Screen:
        """Where to write what `slot` showed in the step that `add` appends next."""
        row = self._pictured.setdefault((self.t, slot), len(self._pictured))
        if row == len(self._screens):
            self._screens = np.concatenate([self._screens, np.zeros_like(self._screens)])
        screen: Screen = self._screens[row]
        return screen

    def start(self, slot: int, start: EpisodeStart) -> None:
        """The step that `add` appends next is the first one of an episode of `slot`."""
        self._starts[self.t, slot] = start

    def trace(self) -> Trace:
        """What was recorded, once every step was added."""
        screens = Screens(self._pictured, self._screens[: len(self._pictured)])
        return replace(self._trace, frames=screens, starts=self._starts, scripts=self._scripts)


class RolloutRecorder:
    """Records the rollouts of `N` slots while a trace is asked for, and else costs nothing.

    A frame is drawn every `png_stride` steps of an episode, and after an event.
    """

    def __init__(
        self, slots: int, taps: int, observation: int, reward_names: tuple[str, ...], png_stride: int
    ):
        """`taps` and `observation` are the lengths of a row of each."""
        self._slots, self._sizes = slots, (taps, observation, len(reward_names))
        self._png_stride = png_stride
        self._watch = EventWatch(reward_names)
        self._event = np.zeros(slots, np.bool_)
        self._start_names = [""] * slots
        self._tape: Tape | None = None
        self._spare: Tape | None = None

    def record(self, steps: int, age: NDArray[np.int64]) -> None:
        """Record the next `steps` steps; `age[N]` counts the steps of the running episodes."""
        if self._spare is None or self._spare.steps != steps:
            self._spare = Tape(steps, self._slots, *self._sizes)
        self._tape = self._spare
        self._tape.rewind()
        for slot in np.flatnonzero(age == 0):
            self._tape.start(int(slot), EpisodeStart(state=self._start_names[slot]))

    def take_trace(self) -> Trace | None:
        """What was recorded, which ends the recording; None where nothing was asked for."""
        tape, self._tape = self._tape, None
        return tape.trace() if tape else None

    def wanted(self, age: NDArray[np.int64], paused: Collection[int]) -> NDArray[np.bool_] | None:
        """Which slots' next frame is to be drawn: `bool[N]`, or None. What stands still is not drawn."""
        if self._tape is None:
            return None
        pictured = self._event | (age % self._png_stride == 0)
        if paused:
            pictured[list(paused)] = False
        return pictured

    def draw(self, batch: GameBatch, pictured: NDArray[np.bool_] | None) -> None:
        """Keep the frames that were `wanted`."""
        if self._tape is not None and pictured is not None:
            for slot in np.flatnonzero(pictured):
                batch.screen(int(slot), out=self._tape.picture(int(slot)))

    def add(
        self,
        age: NDArray[np.int64],
        action: NDArray[np.uint8],
        boundary: NDArray[np.uint8],
        batch: GameBatch,
        obs: NDArray[np.float32],
        parts: NDArray[np.float32],
        columns: Columns,
    ) -> None:
        """Append a step of the batch, as `Tape.add` does, and note its events."""
        if self._tape is not None:
            milestones = columns.milestones
            self._tape.add(age, action, boundary, batch.taps, obs, parts, milestones, batch.pressed)
            self._event = self._watch(columns, parts)

    def begin(self, slot: int, start: str) -> None:
        """An episode begins in `slot` from the start state of that name."""
        self._start_names[slot] = start
        self._event[slot] = False
        if self._tape is not None:
            self._tape.start(slot, EpisodeStart(state=start))

    def names(self, slots: NDArray[np.intp]) -> list[str]:
        """Names of the start states that the episodes of `slots` began from."""
        return [self._start_names[slot] for slot in slots]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"event": self._event.copy(), "start_names": list(self._start_names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the next step is compared with nothing."""
        self._event[:] = state["event"]
        self._start_names = list(state["start_names"])
        self._watch.forget()
