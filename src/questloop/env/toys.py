"""Small environments with known answers, for tests of the runner and the learner."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.env.slot_report import SlotReport
from questloop.env.starts import Guidance
from questloop.episodes.boundary import Boundary


class Corridor:
    """`length` cells in a row; action 1 goes right, any other left; the last one pays 1 and ends the episode.

    An episode is truncated after `limit` steps. A random walk from the left end rarely sees the reward, which
    makes a long corridor a test of exploration.
    """

    num_actions: int = 2
    observation_dtype = np.dtype(np.float32)
    features: NDArray[np.float32] | None = None
    final_features: NDArray[np.float32] | None = None
    paused: Collection[int] = ()

    def __init__(self, num_slots: int, length: int = 10, limit: int = 50) -> None:
        self.num_slots, self.length, self.limit = num_slots, length, limit
        self.observation_shape: tuple[int, ...] = (length,)
        self.final_obs = np.zeros((num_slots, length), np.float32)
        self.position = np.zeros(num_slots, np.int64)
        self.age = np.zeros(num_slots, np.int64)
        self._cells = np.eye(length, dtype=np.float32)

    def seed(self, streams: Sequence[np.random.Generator]) -> None:
        """Nothing is random here."""

    def reset(self, obs: NDArray) -> None:
        self.position[:] = 0
        self.age[:] = 0
        self.observe(obs)

    def step(
        self,
        action: NDArray[np.uint8],
        obs: NDArray,
        reward: NDArray[np.float32],
        boundary: NDArray[np.uint8],
    ) -> None:
        self.position += np.where(action == 1, 1, -1)
        np.clip(self.position, 0, self.length - 1, out=self.position)
        self.age += 1
        arrived = self.position == self.length - 1
        late = ~arrived & (self.age >= self.limit)
        reward[:] = arrived
        boundary[:] = np.where(
            arrived, Boundary.TERMINATED, np.where(late, Boundary.TRUNCATED, Boundary.NONE)
        )
        over = arrived | late
        if over.any():
            self.final_obs[over] = self._cells[self.position[over]]
            self.position[over] = 0
            self.age[over] = 0
        self.observe(obs)

    def observe(self, obs: NDArray) -> None:
        obs[:] = self._cells[self.position]

    def follow(self, guidance: Guidance) -> None:
        """Every episode starts at the left end."""

    def report(self) -> SlotReport:
        return SlotReport()

    def start_trace(self, steps: int) -> None:
        """A corridor has no segments."""

    def trace(self) -> None:
        return None

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position.copy(), "age": self.age.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position[:] = state["position"]
        self.age[:] = state["age"]

    def close(self) -> None:
        """Nothing to release."""
