"""Sums the weighted rewards of a step."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from questloop.rewards.coverage import Coverage
from questloop.rewards.events import event_terms
from questloop.rewards.terms import RewardTerm, Slots, State
from questloop.settings import RewardSettings

if TYPE_CHECKING:
    from questloop.game.columns import Columns
    from questloop.rewards.aims import Aims
    from questloop.rewards.hints import HintTargets


class Rewards:
    """Event and coverage rewards of N slots: the environment's own reward, without shaping or curiosity.

    `parts`, f32 [N, P], holds the weighted parts of the latest step, named by `names`; it and the sum that
    `step` returns are overwritten by the next step.
    """

    def __init__(self, n: int, settings: RewardSettings, pointer: HintTargets | Aims | None = None) -> None:
        """`pointer`: what says where to go, if anything does; following it pays too."""
        self.coverage = Coverage(n)
        self._terms: tuple[RewardTerm, ...] = (self.coverage, *event_terms(n))
        if pointer is not None:
            self._terms += (pointer,)
        self.names = tuple(name for term in self._terms for name in term.names)
        self._weights = np.array(
            [[getattr(settings, f"reward_{name}")] for name in self.names], dtype=np.float32
        )
        self._parts = np.zeros((len(self.names), n), np.float32)
        self._outs = np.split(self._parts, np.cumsum([len(term.names) for term in self._terms])[:-1])
        self._sum = np.zeros(n, np.float32)
        self.parts = self._parts.T

    def reset(self, slots: Slots, columns: Columns) -> None:
        """Begin an episode in `slots` (indices or mask) from the state that `columns` shows."""
        for term in self._terms:
            term.reset(slots, columns)

    def step(self, columns: Columns, still: Collection[int] = ()) -> NDArray[np.float32]:
        """Reward f32 [N] of the step that led to `columns`. Call it before `reset` of a slot that ended.

        Slots whose game stood `still` earn nothing, since no time passes there.
        """
        for term, out in zip(self._terms, self._outs, strict=True):
            term.step(columns, out)
        np.multiply(self._parts, self._weights, out=self._parts)
        if still:
            self._parts[:, list(still)] = 0
        return np.sum(self._parts, axis=0, out=self._sum)

    def state_dict(self) -> State:
        """What every term has paid for, arrays with slots on the first axis: episodes go on across epochs."""
        return {
            f"{term.names[0]}.{name}": array
            for term in self._terms
            for name, array in term.state_dict().items()
        }

    def load_state_dict(self, state: State) -> None:
        """Take over `state_dict` of the same number of slots."""
        for term in self._terms:
            prefix = f"{term.names[0]}."
            term.load_state_dict(
                {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            )
