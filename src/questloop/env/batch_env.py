"""The interface of a vectorised environment: `N` slots stepped together, reset within the same step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from questloop.env.slot_report import SlotReport
from questloop.env.starts import Guidance
from questloop.episodes.trace import Trace


class BatchEnv(Protocol):
    """`N` slots stepped together; a slot whose episode ends is reset within the same step."""

    num_slots: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    num_actions: int

    features: NDArray[np.float32] | None
    """`[N, D]`: vector observations for image or pointed policies, without the pointer; else None."""

    final_features: NDArray[np.float32] | None
    """`[N, D]`, as `final_obs`."""

    final_obs: NDArray
    """`[N, *shape]`: the true last observation of slots that terminated or truncated in the last step."""

    @property
    def paused(self) -> Collection[int]:
        """Slots that stand still in the next step, while a planner's answer is waited for."""

    def seed(self, streams: Sequence[np.random.Generator]) -> None:
        """Draw what is random in slot `n` from `streams[n]`, which the caller goes on using and keeps."""

    def reset(self, obs: NDArray) -> None:
        """Start a new episode in every slot; write first observations into `obs[N, *shape]`."""

    def step(
        self,
        action: NDArray[np.uint8],
        obs: NDArray,
        reward: NDArray[np.float32],
        boundary: NDArray[np.uint8],
    ) -> None:
        """Step every slot; write `obs[N, *shape]` (after autoreset), `reward[N]` and `boundary[N]`."""

    def observe(self, obs: NDArray) -> None:
        """Write the current observations again, without a step."""

    def follow(self, guidance: Guidance) -> None:
        """Choose the starts of episodes by the trainer's archive and curriculum from now on."""

    def report(self) -> SlotReport:
        """What happened since the last report, beyond rewards."""

    def start_trace(self, steps: int) -> None:
        """Record the next `steps` steps for segments."""

    def trace(self) -> Trace | None:
        """What was recorded since `start_trace`, valid until the next one; None where nothing is."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on: numpy arrays and JSON values, nested by string keys."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()` of an environment built alike."""

    def close(self) -> None:
        """Release the emulators."""
