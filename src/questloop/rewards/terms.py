"""The interface of a reward, and helpers for paying each thing once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from questloop.game.columns import Columns

Slots = NDArray[Any]
"""Indices (integers) or a mask `bool[N]` of slots."""

State = dict[str, NDArray[Any]]
"""Arrays by name, slots on the first axis."""


class RewardTerm(Protocol):
    """One source of reward for N slots, which counts events in units that the settings give a weight.

    A term keeps by slot what it has paid for, so that nothing is paid twice and an episode goes on across
    epochs with `state_dict` alone.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts it pays: suffixes of their weights `REWARD_...` and keys in `states.jsonl`."""

    def reset(self, slots: Slots, columns: Columns) -> None:
        """Begin an episode in `slots`; what is owned at its start, also a restored one, pays nothing."""

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        """Write the units earned on reaching `columns` to every element of `out`, f32 [len(names), N]."""

    def state_dict(self) -> State:
        """Copies of what the term keeps, by slot."""

    def load_state_dict(self, state: State) -> None:
        """Take over what `state_dict` gave, for the same number of slots."""


class Latches:
    """Arrays by slot that make a term's memory; gives terms `state_dict` and `load_state_dict`."""

    def __init__(self, **arrays: NDArray[Any]) -> None:
        self._arrays = arrays

    def state_dict(self) -> State:
        return {name: array.copy() for name, array in self._arrays.items()}

    def load_state_dict(self, state: State) -> None:
        for name, array in self._arrays.items():
            if state[name].shape != array.shape:
                raise ValueError(f"{name} has shape {state[name].shape}, this term needs {array.shape}")
            array[...] = state[name]
