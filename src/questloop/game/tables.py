"""Lookup tables for functions of single bytes.

What a step means is mostly a function of one byte each: a flag, a packed decimal, a signed height. Tabulated
they are looked up together, M functions for N rows in three numpy calls, where one call a function and field
costs ten times as much: emulation leaves the caches cold, so that the number of calls is what counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

BYTES = np.arange(256, dtype=np.int32)
"""Every byte: what a table is a function of."""


class ByteTable:
    """M functions, each of the byte at one place of a row."""

    def __init__(self, places: Sequence[int], functions: NDArray[Any]) -> None:
        """`places` are columns of a row u8[K], `functions` [M, 256] the values for each byte."""
        self._places = np.asarray(places, np.intp)[:, None]
        self._rows = np.arange(len(places), dtype=np.intp)[:, None] * 256
        self._values = functions.ravel()

    def __call__(self, taps: NDArray[np.uint8]) -> NDArray[Any]:
        """The values [M, N] for contiguous rows `taps` u8[N, K]."""
        found: NDArray[Any] = self._values.take(self._rows + taps.take(self._where(taps.shape)))
        return found

    def _where(self, shape: tuple[int, ...]) -> NDArray[np.intp]:
        return self._places + _row_starts(*shape)


@lru_cache(maxsize=64)
def _row_starts(rows: int, size: int) -> NDArray[np.intp]:
    return np.arange(rows, dtype=np.intp) * size
