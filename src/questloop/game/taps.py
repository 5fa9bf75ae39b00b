"""Memory taps: which bytes of a game are read at every step, and where they stand in a row.

A row is `u8[K]`: the bytes of all taps of a layout, in order. `operator.itemgetter` over PyBoy's memory view
fetches them in one call: 0.025 us per byte, banked or not, where a slice costs 0.36 us and 0.029 us per byte,
and a loop of single reads 0.06 us per byte (PyBoy 2.8.1). So only the bytes that are needed are tapped, and
what only tools and planners ask for stands in a second layout.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SWITCHED = range(0xD000, 0xE000)
_BANKS = {range(0x8000, 0xA000): range(2), range(0xA000, 0xC000): range(16), _SWITCHED: range(1, 8)}
"""Banked memory: pictures, the cartridge's RAM, work RAM."""


@dataclass(frozen=True)
class Tap:
    """`length` bytes from `address`, every `stride` bytes.

    `bank` is None for memory that is not banked (WRAM bank 0, HRAM). Work RAM at D000-DFFF must name its
    bank, 1 to 7: the plain address reads whichever bank the game has switched in at that instant. Video RAM
    at 8000-9FFF may name its bank, 0 or 1, and the cartridge's RAM at A000-BFFF too.
    """

    name: str
    bank: int | None
    address: int
    length: int = 1
    stride: int = 1

    def __post_init__(self) -> None:
        last = self.address + (self.length - 1) * self.stride
        if self.length < 1 or self.stride < 1 or not 0x8000 <= self.address <= last <= 0xFFFF:
            raise ValueError(f"tap {self.name}: {self.length} bytes from {self.address:04X} are not in RAM")
        banked = [banks for place, banks in _BANKS.items() if self.address in place and last in place]
        if self.bank is None and (self.address in _SWITCHED or last in _SWITCHED):
            raise ValueError(f"tap {self.name}: a bank is named for D000-DFFF, 1 to 7")
        if self.bank is not None and not any(self.bank in banks for banks in banked):
            raise ValueError(
                f"tap {self.name}: no bank {self.bank} at {self.address:04X}-{last:04X}; banked are"
                " 8000-9FFF (0, 1), A000-BFFF (0 to 15) and D000-DFFF (1 to 7)"
            )

    @property
    def addresses(self) -> range:
        """Address of every byte."""
        return range(self.address, self.address + self.length * self.stride, self.stride)


@dataclass(frozen=True)
class IndexedTap:
    """One byte whose address depends on two others of the row: `bases[row[page]] + row[index]`.

    The flags of the current room are such a byte. A page that `bases` does not have reads as 0.
    """

    name: str
    bases: tuple[int, ...]
    page: str
    index: str


class TapLayout:
    """Ordered taps and their places in a row.

    `size` is K, the bytes of a row; `hash` is the SHA-256 (hex) of the taps' canonical form, stored with save
    states and segments so that rows are never decoded by another layout.
    """

    def __init__(self, taps: Iterable[Tap], indexed: Iterable[IndexedTap] = ()) -> None:
        self.taps = tuple(taps)
        self.indexed = tuple(indexed)
        self._places: dict[str, slice] = {}
        self.size = 0
        for tap in self.taps:
            self._place(tap.name, tap.length)
        for indexed_tap in self.indexed:
            self._place(indexed_tap.name, 1)
        self.hash = hashlib.sha256(self._canonical()).hexdigest()
        self._fetch = itemgetter(
            *(
                address if tap.bank is None else (tap.bank, address)
                for tap in self.taps
                for address in tap.addresses
            )
        )
        self._lookups = [(t.bases, self.index(t.page), self.index(t.index)) for t in self.indexed]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all taps, in order."""
        return tuple(self._places)

    def offset(self, name: str) -> slice:
        """Where the bytes of tap `name` stand in a row."""
        return self._places[name]

    def index(self, name: str, element: int = 0) -> int:
        """Place in a row of byte `element` of tap `name`."""
        place = self._places[name]
        if not 0 <= element < place.stop - place.start:
            raise IndexError(f"tap {name} has no byte {element}")
        return place.start + element

    def read(self, memory: Any, out: memoryview) -> None:
        """Fill `out` (a writable u8[K] buffer) from PyBoy's `memory` view."""
        values = bytearray(self._fetch(memory))
        for bases, page, index in self._lookups:
            known = values[page] < len(bases)
            values.append(memory[bases[values[page]] + values[index]] if known else 0)
        out[:] = values

    def row(self, **values: int | Iterable[int]) -> NDArray[np.uint8]:
        """A constructed row u8[K] with the named taps set and all else zero."""
        out = np.zeros(self.size, np.uint8)
        for name, value in values.items():
            place = self._places[name]
            data = [value] if isinstance(value, int) else list(value)
            if len(data) > place.stop - place.start:
                raise ValueError(f"tap {name} has {place.stop - place.start} bytes, not {len(data)}")
            out[place.start : place.start + len(data)] = data
        return out

    def _place(self, name: str, length: int) -> None:
        if name in self._places:
            raise ValueError(f"tap {name} is named twice")
        self._places[name] = slice(self.size, self.size + length)
        self.size += length

    def _canonical(self) -> bytes:
        form: list[list[Any]] = [[t.name, t.bank, t.address, t.length, t.stride] for t in self.taps]
        form += [[t.name, *t.bases, t.page, t.index] for t in self.indexed]
        return json.dumps(form).encode()
