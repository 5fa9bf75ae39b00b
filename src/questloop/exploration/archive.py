"""The archive of restart states: episodes return to rarely seen places and explore from there.

Source: Ecoffet, Huizinga, Lehman, Stanley, Clune 2021, "First return, then explore". The trainer holds one
`Archive`; each runner explores with an `Explorer` on it and hands back a `Delta`; the trainer merges the
deltas and sends the archive out again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.errors import BadDataError
from questloop.exploration.cells import CellTracker, parse_cell_name
from questloop.game.columns import Columns
from questloop.game.state_file import SaveState
from questloop.storage import keys
from questloop.storage.store import NotFound, Store, StoredObject

CAPACITY = 512
BETTER_BY = 1.0
FORMAT = 1


@dataclass
class ArchiveCell:
    """`seen` counts the times that episodes came into the cell, `chosen` those that one started from it.

    `state` is None once the cell had to leave a full archive: it is still counted and not taken again.
    """

    state: bytes | None = field(repr=False)
    raw_return: float
    seen: int = 0
    chosen: int = 0


@dataclass
class Delta:
    """What a runner adds to the archive."""

    seen: Counter[str] = field(default_factory=Counter)
    chosen: Counter[str] = field(default_factory=Counter)
    found: dict[str, tuple[float, bytes]] = field(default_factory=dict)


class Archive:
    """Cells by name, at most `capacity` of them with a state."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.cells: dict[str, ArchiveCell] = {}

    def probabilities(self) -> dict[str, float]:
        """Chance of each cell that has a state to be started from: `1 / sqrt(seen + 1)`, normalised."""
        weights = {n: 1 / math.sqrt(c.seen + 1) for n, c in self.cells.items() if c.state is not None}
        total = sum(weights.values())
        return {name: weight / total for name, weight in weights.items()}

    def choose(self, rng: np.random.Generator) -> str | None:
        """The name of a cell drawn by `probabilities`; None where there are none."""
        chances = self.probabilities()
        if not chances:
            return None
        return list(chances)[int(rng.choice(len(chances), p=list(chances.values())))]

    def state(self, name: str) -> SaveState:
        """The state of a cell, which carries the cell's name and the unshaped return it was reached with."""
        state = self.cells[name].state
        if state is None:
            raise KeyError(f"archive cell {name} has left the archive")
        return SaveState.from_bytes(state, f"archive cell {name}")

    def improves(self, name: str, raw_return: float) -> bool:
        """Whether a state of that cell and return is worth keeping: a new cell, or clearly better play."""
        known = self.cells.get(name)
        if known is None:
            return True
        return known.state is not None and raw_return > known.raw_return + BETTER_BY

    def merge(self, deltas: Iterable[Delta]) -> None:
        """Take in what runners found and counted, in their order; the most seen cells leave where it is full.

        What is seen often is reached without the archive, so nothing is lost with it.
        """
        for delta in deltas:
            for name, (raw_return, state) in delta.found.items():
                if name not in self.cells:
                    self.cells[name] = ArchiveCell(state, raw_return)
                elif self.improves(name, raw_return):
                    self.cells[name].state, self.cells[name].raw_return = state, raw_return
            for name, cell in self.cells.items():
                cell.seen += delta.seen[name]
                cell.chosen += delta.chosen[name]
        held = [name for name, cell in self.cells.items() if cell.state is not None]
        held.sort(key=lambda name: (-self.cells[name].seen, name))
        for name in held[: max(len(held) - self.capacity, 0)]:
            self.cells[name].state = None

    def write(self, store: Store, key: str) -> list[StoredObject]:
        """Put the states, each under its hash, then the index `key`; returns what was written."""
        written, index = [], {}
        for name, cell in self.cells.items():
            digest = None
            if cell.state is not None:
                digest = hashlib.sha256(cell.state).hexdigest()
                if not store.exists(keys.archive_state(digest)):
                    written.append(store.put(keys.archive_state(digest), cell.state))
            index[name] = {
                "state": digest,
                "raw_return": cell.raw_return,
                "seen": cell.seen,
                "chosen": cell.chosen,
            }
        document = {"schema_version": FORMAT, "capacity": self.capacity, "cells": index}
        written.append(store.put(key, json.dumps(document, allow_nan=False).encode(), durable=True))
        return written

    @classmethod
    def read(cls, store: Store, key: str) -> Archive:
        """The archive whose index is `key`, every state checked against its hash.

        Raises `BadDataError` where the index or a state is missing, changed or of another format.
        """
        document = _document(store.get(key), key)
        archive = cls(document["capacity"])
        for name, entry in document["cells"].items():
            state = _state(store, entry["state"]) if entry["state"] is not None else None
            archive.cells[name] = ArchiveCell(state, entry["raw_return"], entry["seen"], entry["chosen"])
        return archive

    def require(self, rom_sha256: str, pyboy_version: str, layout_hash: str) -> None:
        """Raise `BadDataError`, saying what changed, unless every state was made with exactly these."""
        for name in self.probabilities():
            self.state(name).require(rom_sha256, pyboy_version, layout_hash, f"archive cell {name}")


class Explorer:
    """A runner's side: N slots that follow cells, choose starts and collect a delta."""

    def __init__(self, n: int, archive: Archive) -> None:
        self._archive = archive
        self._tracker = CellTracker(n)
        self._delta = Delta()

    def renew(self, archive: Archive) -> None:
        """Go on with the merged archive."""
        self._archive = archive

    def choose(self, rng: np.random.Generator) -> SaveState | None:
        """A state to start an episode from; None where the archive is empty. Counts as chosen, not as seen.

        Rewards, encoder and potential take their baselines from the restored state, as at any reset.
        """
        name = self._archive.choose(rng)
        if name is None:
            return None
        self._delta.chosen[name] += 1
        return self._archive.state(name)

    def reset(self, slots: NDArray[np.intp], columns: Columns) -> None:
        """Begin an episode in `slots`."""
        self._tracker.reset(slots, columns)

    def visit(self, columns: Columns, raw_return: NDArray[np.float32]) -> list[tuple[int, str]]:
        """Count the cells entered; returns (slot, cell) of those whose state is to be kept by `keep`.

        `raw_return`: f32 [N], the unshaped return of each episode since power-on.
        """
        wanted = []
        for slot, name in self._tracker.entered(columns):
            self._delta.seen[name] += 1
            if self._improves(name, float(raw_return[slot])):
                wanted.append((slot, name))
        return wanted

    def keep(self, name: str, raw_return: float, state: SaveState) -> None:
        """Add the state of a cell that `visit` asked for."""
        kept = replace(state, cell=name, raw_return=raw_return)
        self._delta.found[name] = (raw_return, kept.to_bytes())

    def take_delta(self) -> Delta:
        """What was added since the last call."""
        delta, self._delta = self._delta, Delta()
        return delta

    def state_dict(self) -> dict[str, NDArray]:
        """Arrays by slot; a delta is taken before."""
        return self._tracker.state_dict()

    def load_state_dict(self, state: dict[str, NDArray]) -> None:
        """Take over what `state_dict` gave."""
        self._tracker.load_state_dict(state)

    def _improves(self, name: str, raw_return: float) -> bool:
        found = self._delta.found.get(name)
        if found is not None and raw_return <= found[0] + BETTER_BY:
            return False
        return self._archive.improves(name, raw_return)


@dataclass(frozen=True)
class IndexedCell:
    """A cell as the index lists it; `held`: there is a state to start from."""

    held: bool
    raw_return: float
    seen: int
    chosen: int


def read_index(store: Store, key: str) -> dict[str, IndexedCell]:
    """The cells of the archive whose index is `key`; no state is read.

    Raises `NotFound` where there is none, `BadDataError` where it is damaged.
    """
    document = _document(store.get(key), key)
    try:
        for name in document["cells"]:
            parse_cell_name(name)
    except ValueError as error:
        raise BadDataError(f"{key} is no index of an archive ({error}); {_REMEDY}") from None
    return {
        name: IndexedCell(entry["state"] is not None, entry["raw_return"], entry["seen"], entry["chosen"])
        for name, entry in document["cells"].items()
    }


_DIGEST = re.compile("[0-9a-f]{64}")
_REMEDY = "remove the archive's index to begin a new archive, or restore the object"


def _state(store: Store, digest: str) -> bytes:
    key = keys.archive_state(digest)
    try:
        state = store.get(key)
    except NotFound:
        raise BadDataError(f"{key} is missing; {_REMEDY}") from None
    if hashlib.sha256(state).hexdigest() != digest:
        raise BadDataError(f"{key} is damaged; {_REMEDY}")
    return state


def _document(data: bytes, key: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
        if document["schema_version"] != FORMAT:
            raise ValueError(f"format {document['schema_version']}, this version reads {FORMAT}")
        for entry in document["cells"].values():
            if not (entry["seen"] >= 0 and entry["chosen"] >= 0 and math.isfinite(entry["raw_return"])):
                raise ValueError("a count or return out of range")
            if not (entry["state"] is None or _DIGEST.fullmatch(entry["state"])):
                raise ValueError("a state that is no SHA-256")
        return {"capacity": int(document["capacity"]), "cells": document["cells"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BadDataError(f"{key} is no index of an archive ({error}); {_REMEDY}") from None
