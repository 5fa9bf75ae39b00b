"""Random number streams, one per slot, that do not depend on which runner holds the slot."""

from __future__ import annotations

from typing import Any

import numpy as np


def slot_streams(seed: int, first_slot: int, count: int, incarnation: int = 0) -> list[np.random.Generator]:
    """Generators of the slots `first_slot ... first_slot + count - 1` of the whole fleet of runners.

    Slot `k` draws the same numbers whichever runner holds it.
    """
    keys = ((slot, incarnation) for slot in range(first_slot, first_slot + count))
    return [np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))) for key in keys]


def stream_states(streams: list[np.random.Generator]) -> list[dict[str, Any]]:
    """JSON-able states of `streams`."""
    return [dict(stream.bit_generator.state) for stream in streams]


def load_stream_states(streams: list[np.random.Generator], states: list[dict[str, Any]]) -> None:
    """Put `streams` where `stream_states` left them."""
    for stream, state in zip(streams, states, strict=True):
        stream.bit_generator.state = state
