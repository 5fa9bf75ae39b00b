"""The interface by which a runner calls what plays beside the policy: takeovers and hints."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.takeover import EndedTakeover


class CopilotReport(Protocol):
    """What a copilot did in a rollout; the trainer sums those of an epoch."""

    def add(self, other: Self) -> None:
        """Take in another report of the same kind."""

    def publish(self) -> None:
        """Add to this process's metrics."""

    def to_json(self) -> dict[str, Any]:
        """For an epoch's report."""


class Copilot(Protocol):
    """Acts for `N` slots before each step. `name` is its key in checkpoints and in a rollout's report."""

    name: str

    def act(self, action: NDArray[np.uint8], mask: NDArray[np.bool_], mode: NDArray[np.uint8]) -> None:
        """Before a step: may overwrite `action[N]`, clear `mask[N]` there and say in `mode[N]` who plays."""

    def ended(self, slots: NDArray[np.intp]) -> None:
        """The episodes of `slots` are over; new ones have begun."""

    def report(self) -> CopilotReport:
        """What happened since the last report."""

    def take_ended(self) -> list[EndedTakeover]:
        """The takeovers that ended since this was called last; their rows count from there."""

    def state_dict(self) -> dict[str, Any]:
        """What the next step depends on; requests in flight are dropped."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""

    def close(self) -> None:
        """Ask no more."""
