"""What a policy sees of the game: the vector, the vector with a pointer to where to go, or pictures.

Reward models and curiosity always read the vector. Where the policy sees something else, the observer keeps
the vectors beside it as `features`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from questloop.env.visual import SHAPE, VisualEncoder
from questloop.game.actions import Action
from questloop.game.batch import GameBatch
from questloop.game.columns import Columns
from questloop.game.observation import OBSERVATION_SIZE, OBSERVATION_VERSION, Encoder
from questloop.game.profile import Profile
from questloop.game.state_file import SaveState

VECTOR = f"vector-{OBSERVATION_VERSION}"
AIMED = f"{VECTOR}-aim-1"
HINTED = f"{VECTOR}-hint-1"
VISUAL = "visual-1"
"""Names of what policies see; a checkpoint loads only under the name that it was trained with."""

WHITE_MOST = 5.0
"""Where a policy cuts off a whitened component of the observation, in spreads."""

Floats = NDArray[np.float32]


class Pointer(Protocol):
    """What says where to go: `rewards.hints.HintTargets` or `rewards.aims.Aims`."""

    def seen_by(self, columns: Columns) -> Floats:
        """`[N, size]`: where it points, as the policy sees it."""


class VectorObserver:
    """Writes the vector straight into what the policy sees, f32[N, OBSERVATION_SIZE]."""

    shape: tuple[int, ...] = (OBSERVATION_SIZE,)
    dtype: np.dtype[Any] = np.dtype(np.float32)
    draws = False
    """Whether every step has to be drawn for it."""
    features: Floats | None = None
    """`[N, OBSERVATION_SIZE]`: the vectors beside what the policy sees; None where they are the same."""
    final_features: Floats | None = None
    """As `features`, of the last step of episodes that ended."""

    def __init__(self, num_slots: int, profile: Profile, frame_skip: int) -> None:
        self.encoder = Encoder(num_slots, profile, frame_skip)

    def encode(
        self, game: GameBatch, columns: Columns, action: NDArray[np.uint8], obs: NDArray[Any]
    ) -> Floats:
        """Write what the policy sees after a step into `obs[N, *shape]`; returns the vectors."""
        self.encoder.encode(columns, action, obs)
        return obs

    def begin(self, slots: NDArray[np.intp], columns: Columns, obs: NDArray[Any]) -> None:
        """Write the first observations of new episodes into `obs[slots]`."""
        obs[slots] = self.encoder.begin(slots, columns)

    def keep_final(self, slots: NDArray[np.intp]) -> None:
        """The episodes of `slots` ended: keep their last vectors."""

    def load(self, game: GameBatch, slot: int, state: SaveState) -> None:
        """Load `state` into a slot so that all that is seen from there depends on it alone."""
        game.load(slot, state)

    def state_dict(self) -> dict[str, Any]:
        """What the next observation depends on."""
        return {"encoder": self.encoder.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.encoder.load_state_dict(state["encoder"])


class _Beside(VectorObserver):
    """Keeps the vectors apart from what the policy sees."""

    features: Floats
    final_features: Floats

    def __init__(self, num_slots: int, profile: Profile, frame_skip: int) -> None:
        super().__init__(num_slots, profile, frame_skip)
        self.features = np.zeros((num_slots, OBSERVATION_SIZE), np.float32)
        self.final_features = np.zeros_like(self.features)

    def keep_final(self, slots: NDArray[np.intp]) -> None:
        self.final_features[slots] = self.features[slots]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"features": self.features.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.features[:] = state["features"]


class PointedObserver(_Beside):
    """The vector followed by the `size` numbers of a pointer."""

    def __init__(
        self, num_slots: int, profile: Profile, frame_skip: int, pointer: Pointer, size: int
    ) -> None:
        super().__init__(num_slots, profile, frame_skip)
        self.shape = (OBSERVATION_SIZE + size,)
        self._pointer = pointer

    def encode(
        self, game: GameBatch, columns: Columns, action: NDArray[np.uint8], obs: NDArray[Any]
    ) -> Floats:
        self.encoder.encode(columns, action, self.features)
        obs[:, :OBSERVATION_SIZE] = self.features
        obs[:, OBSERVATION_SIZE:] = self._pointer.seen_by(columns)
        return self.features

    def begin(self, slots: NDArray[np.intp], columns: Columns, obs: NDArray[Any]) -> None:
        self.features[slots] = self.encoder.begin(slots, columns)
        obs[slots, :OBSERVATION_SIZE] = self.features[slots]
        obs[slots, OBSERVATION_SIZE:] = self._pointer.seen_by(columns)[slots]


class VisualObserver(_Beside):
    """Pictures and memory channels, u8[N, 7, 72, 80]; see `env.visual`."""

    shape = SHAPE
    dtype = np.dtype(np.uint8)
    draws = True

    def __init__(self, num_slots: int, profile: Profile, frame_skip: int) -> None:
        super().__init__(num_slots, profile, frame_skip)
        self._visual = VisualEncoder(num_slots)

    def encode(
        self, game: GameBatch, columns: Columns, action: NDArray[np.uint8], obs: NDArray[Any]
    ) -> Floats:
        self.encoder.encode(columns, action, self.features)
        self._visual.encode(game, columns, self.encoder.history, obs)
        return self.features

    def begin(self, slots: NDArray[np.intp], columns: Columns, obs: NDArray[Any]) -> None:
        self.features[slots] = self.encoder.begin(slots, columns)
        self._visual.begin(slots, columns, self.encoder.history, obs)

    def load(self, game: GameBatch, slot: int, state: SaveState) -> None:
        """PyBoy keeps what lies before sprites from the last picture it drew, and saves it in no state.

        A picture drawn from `state` itself makes that the same everywhere.
        """
        super().load(game, slot, state)
        game.emulators[slot].step(Action.NOP, 1, render=True)
        game.load(slot, state)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"visual": self._visual.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._visual.load_state_dict(state["visual"])
