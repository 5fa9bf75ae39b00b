"""Finds the addresses where a game keeps something by how it changes, for the taps of a new profile.

Walk to the right and look for bytes that rose, stand still for those that stayed, walk to the left for those
that fell: after a few steps a handful of addresses is left.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from questloop.errors import UsageError
from questloop.game.emulator import Emulator
from questloop.game.input_script import Input, parse_inputs

_AREAS: tuple[tuple[int | None, int, int], ...] = (
    (None, 0xC000, 0x1000),
    *((bank, 0xD000, 0xFFF) for bank in range(1, 8)),
    (None, 0xFF40, 1),
    (None, 0xFF42, 2),
    (None, 0xFF47, 5),
    (None, 0xFF80, 0x7F),
)
"""Bank, first address and length of what is searched: work RAM, the screen's registers of layers, scrolling,
shades and window, and high RAM. PyBoy gives no slice of a bank to its very end, so the last byte of each is
left out."""

_AMOUNT = re.compile(r"([+-]|=)(0x[0-9a-fA-F]+|\d+)")
_WORDS = ("up", "down", "same", "changed")


@dataclass(frozen=True)
class Step:
    """Inputs, and how the byte changes while they are played: `up`, `down`, `same`, `changed`, `+4`, `-4` (by
    exactly so much) or `=12` (to this value)."""

    inputs: tuple[Input, ...]
    change: str

    @classmethod
    def parse(cls, text: str) -> Step:
        """`RIGHT 16: up`, or several inputs: `RIGHT 16, NOP 8: +16`. Raises `UsageError`."""
        script, _, change = text.rpartition(":")
        change = change.strip().lower()
        if not script.strip() or (change not in _WORDS and not _AMOUNT.fullmatch(change)):
            raise UsageError(
                f"--step {text!r}: write inputs, a colon and a change, as in 'RIGHT 16: up'; a change is"
                f" {', '.join(_WORDS)}, +N, -N or =N"
            )
        return cls(tuple(parse_inputs(script.replace(",", "\n"), f"--step {text!r}")), change)

    def holds(self, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which bytes changed so."""
        amount = _AMOUNT.fullmatch(self.change)
        if amount is None:
            found: NDArray[np.bool_] = {
                "up": after > before,
                "down": after < before,
                "same": after == before,
                "changed": after != before,
            }[self.change]
            return found
        number = int(amount[2], 0)
        if amount[1] == "=":
            return after == number
        by = number if amount[1] == "+" else -number
        return (after.astype(np.int16) - before) & 0xFF == by & 0xFF


@dataclass(frozen=True)
class Candidate:
    """An address whose byte changed as asked, and its values: at first, and after each step."""

    bank: int | None
    address: int
    values: tuple[int, ...]

    @property
    def tap(self) -> str:
        """How a profile writes it."""
        return f'Tap("name", {self.bank}, 0x{self.address:04X})'


def search(emulator: Emulator, steps: Sequence[Step]) -> list[Candidate]:
    """Play the steps from where the emulator stands; every byte of RAM that changed as they say."""
    snapshots = [_snapshot(emulator)]
    held = np.ones(len(snapshots[0]), np.bool_)
    for step in steps:
        for item in step.inputs:
            emulator.step(item.action, item.frames)
        snapshots.append(_snapshot(emulator))
        held &= step.holds(*snapshots[-2:])
    places = [(bank, first + offset) for bank, first, length in _AREAS for offset in range(length)]
    return [
        Candidate(*places[at], tuple(int(snapshot[at]) for snapshot in snapshots))
        for at in np.flatnonzero(held).tolist()
    ]


def _snapshot(emulator: Emulator) -> NDArray[np.uint8]:
    parts = [emulator.peek(first, length, bank) for bank, first, length in _AREAS]
    return np.frombuffer(b"".join(parts), np.uint8)
