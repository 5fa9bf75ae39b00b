"""What a few agents see and where they walk while they train, for whoever looks on."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.png import encode_png
from questloop.episodes.trace import Trace
from questloop.game.profile import Profile
from questloop.storage import keys
from questloop.storage.store import Store
from questloop.telemetry.progress import FLUSH_S, LatestWriter
from questloop.training.runner import Sample

AGENTS = 6
TRAIL = 12
"""Places of an agent's trail, evenly spread over a rollout, its last one among them."""
EVERY_S = 4.0


class LiveView:
    """Writes `agents.json`: of up to `AGENTS` agents the newest recorded screen and the trail of a rollout.

    At most every `EVERY_S` seconds, in a thread: a store that is slow or away holds nobody up.
    """

    def __init__(self, store: Store, profile: Profile, clock: Callable[[], float] = time.monotonic) -> None:
        self._writer = LatestWriter(lambda data: store.put(keys.agents(), data), "agents")
        self._profile, self._clock = profile, clock
        self._shown: float | None = None

    def show(self, epoch: int, step: int, samples: Sequence[Sample]) -> None:
        """Take in what was sampled up to `step` of the run; `samples` are ordered by runner."""
        if self._shown is not None and self._clock() - self._shown < EVERY_S:
            return
        self._shown = self._clock()
        traces = [sample.trace for sample in samples if sample.trace is not None]
        seats = [(trace, slot) for trace in traces for slot in range(trace.shape[1])]
        chosen = np.unique(np.linspace(0, max(0, len(seats) - 1), AGENTS).round().astype(int))
        agents = [self._agent(int(place), *seats[place]) for place in chosen] if seats else []
        document = {"schema_version": 1, "epoch": epoch, "step": step, "agents": agents}
        self._writer.put(json.dumps(document, allow_nan=False).encode() + b"\n")

    def flush(self) -> None:
        """Wait for the last look to be written, for a few seconds at most."""
        self._writer.flush(FLUSH_S)

    def _agent(self, number: int, trace: Trace, slot: int) -> dict[str, Any]:
        """`trail`: group, room, x and y in pixels of the room; `screen`: PNG in base64, or None; `pictured`:
        group and room that it shows at rest, or None."""
        rows = np.unique(np.linspace(0, len(trace.action) - 1, TRAIL).round().astype(int))
        newest = max((t for t, n in trace.frames if n == slot), default=None)
        screen = None if newest is None else encode_png(trace.frames[newest, slot])
        return {
            "agent": number,
            "trail": self._places(trace.taps[rows, slot]),
            "screen": None if screen is None else base64.b64encode(screen).decode(),
            "pictured": None if newest is None else self._at_rest(trace.taps[newest, slot]),
        }

    def _at_rest(self, taps: NDArray[np.uint8]) -> list[int] | None:
        columns = self._profile.columns(np.ascontiguousarray(taps[None]))
        return [int(columns.group[0]), int(columns.room[0])] if columns.walks_freely[0] else None

    def _places(self, taps: NDArray[np.uint8]) -> list[list[int]]:
        columns = self._profile.columns(np.ascontiguousarray(taps))
        return np.stack([columns.group, columns.room, columns.x, columns.y], axis=1).tolist()
