"""Finds the distinct cells of a run, parts of rooms with what was achieved, for the judges of states.

A cell is where the hero stands (the room, and which ninth of it) together with what was achieved: items,
keys and milestones. A run has hundreds of them, at most some thousands, however many steps it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from questloop.episodes.files import decode_observations, encode_observations
from questloop.episodes.jsonl import from_jsonl, to_jsonl
from questloop.episodes.trace import Floats, Trace
from questloop.errors import BadDataError
from questloop.game.columns import Columns, Masks
from questloop.game.profile import Profile
from questloop.game.state import decode_all
from questloop.storage import keys
from questloop.storage.commit import holds, remedy
from questloop.storage.keys import Stage
from questloop.storage.schema import NEWEST, SchemaVersion
from questloop.storage.store import Store, StoredObject

PARTS = 3
"""parts of a room's width, and of its height"""

_SIZES = np.array([[160, 128], [240, 176]], np.int32)  # width, height in pixels: small, large rooms


class GameCell(BaseModel):
    """A line of `cells.jsonl`."""

    model_config = ConfigDict(frozen=True)

    schema_version: SchemaVersion = NEWEST
    cell_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    epoch: int = Field(ge=0, description="in which it was first seen")
    episode_id: str
    step: int = Field(ge=0, description="of the episode")
    state: dict[str, Any] = Field(description="the game's state, as in states.jsonl")


@dataclass(frozen=True)
class SeenCell:
    """A cell and what the policy saw there: `observation` f32 [D]."""

    cell: GameCell
    observation: Floats


class CellCollector:
    """Finds the cells of traces that no earlier step of the run was in.

    A whole trace is decoded at once, beside the play: a step costs what a few microseconds cost.
    """

    def __init__(self, profile: Profile, epoch: int, seen: Iterable[int]) -> None:
        """`seen`: ids of the cells of earlier epochs."""
        self._profile, self._epoch = profile, epoch
        self._seen = set(seen)
        self._found: list[SeenCell] = []

    @property
    def seen(self) -> frozenset[int]:
        """Ids of all cells of the run so far."""
        return frozenset(self._seen)

    def __len__(self) -> int:
        """Cells that this epoch saw first."""
        return len(self._found)

    def add(self, trace: Trace, episode_of: Callable[[int, int], str]) -> None:
        """Note the new cells of a trace; `episode_of(t, slot)` is the id of a step's episode.

        Only states count in which the hero walks freely. What is kept is copied.
        """
        steps, slots = trace.shape
        columns = self._profile.columns(trace.taps.reshape(steps * slots, -1))
        rows = np.flatnonzero(columns.walks_freely)
        ids, first = np.unique(cell_ids(columns)[rows], return_index=True)
        new = [(int(row), int(each)) for row, each in zip(rows[first], ids, strict=True)]
        new = sorted(pair for pair in new if pair[1] not in self._seen)
        if not new:
            return
        chosen = [divmod(row, slots) for row, _ in new]
        states = decode_all(np.stack([trace.taps[at] for at in chosen]), self._profile)
        for at, (_, cell_id), state in zip(chosen, new, states, strict=True):
            cell = GameCell(
                cell_id=f"{cell_id:016x}",
                epoch=self._epoch,
                episode_id=episode_of(*at),
                step=int(trace.episode_step[at]),
                state=state.to_json(),
            )
            self._found.append(SeenCell(cell, trace.obs[at].copy()))
            self._seen.add(cell_id)

    def write(self, store: Store) -> tuple[StoredObject, ...]:
        """The epoch's files, for the commit of its rollouts."""
        lines = to_jsonl(each.cell for each in self._found)
        size = self._found[0].observation.size if self._found else 0
        seen = [each.observation for each in self._found]
        observations = np.stack(seen) if seen else np.zeros((0, size), np.float32)
        return (
            store.put(keys.cells(self._epoch), lines, durable=True),
            store.put(keys.cell_observations(self._epoch), encode_observations(observations), durable=True),
        )


def cell_ids(columns: Columns) -> NDArray[np.uint64]:
    """Id u64 [N] of the cell of each row; equal for equal cells, on every machine.

    A hash of what makes a cell, by FNV-1a over words of 64 bits (Fowler, Noll, Vo).
    """
    size = _SIZES[columns.large_room.astype(np.intp)]
    across = np.minimum(columns.x * PARTS // size[:, 0], PARTS - 1)
    down = np.minimum(columns.y * PARTS // size[:, 1], PARTS - 1)
    where = (columns.place << 8) | (down << 4) | across
    owned = [columns.small_keys, columns.boss_keys, columns.sword_level, columns.shield_level]
    items = np.ascontiguousarray(columns.items).view(np.uint64)
    words = [where, *owned, *items.T, _folded(columns.milestones)]
    found = np.full(columns.n, 0xCBF29CE484222325, np.uint64)
    for word in words:
        found = (found ^ word.astype(np.uint64)) * np.uint64(0x100000001B3)
        found ^= found >> np.uint64(29)
    return found


def _folded(masks: Masks) -> NDArray[np.uint64]:
    """Masks u64 [N]; what lies above 64 bits is mixed in, so that masks without it stay as they are."""
    words = [mask & _WORD ^ (mask >> 64) * _ODD & _WORD for mask in map(int, masks)]
    return np.array(words, np.uint64)


_WORD = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15


def seen_in_epochs(store: Store, epochs: Iterable[int]) -> set[int]:
    """Ids of the cells that committed epochs saw first."""
    return {int(cell.cell_id, 16) for epoch in epochs for cell in read_cells(store, epoch)}


def read_cells(store: Store, epoch: int) -> list[GameCell]:
    """The cells that a committed epoch saw first; none where it was played by a version that noted none."""
    if not holds(store, epoch, Stage.ROLLOUTS, keys.cells(epoch)):
        return []
    key = keys.cells(epoch)
    return from_jsonl(GameCell, store.get(key), key, remedy(epoch))


def read_seen_cells(store: Store, epoch: int) -> list[SeenCell]:
    """As `read_cells`, with observations."""
    cells = read_cells(store, epoch)
    if not cells:
        return []
    key = keys.cell_observations(epoch)
    observations = decode_observations(store.get(key), key)
    if len(observations) != len(cells):
        raise BadDataError(f"{key}: {len(observations)} observations of {len(cells)} cells")
    return [SeenCell(cell, row) for cell, row in zip(cells, observations, strict=True)]
