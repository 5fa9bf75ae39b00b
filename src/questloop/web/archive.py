"""The dashboard's data about the archive of restart states, by room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from questloop.exploration.archive import IndexedCell, read_index
from questloop.exploration.cells import parse_cell_name
from questloop.game.profile import Profile
from questloop.game.profiles import profile_in_force
from questloop.report.book import RunBook
from questloop.report.images import Room
from questloop.settings import GameSettings
from questloop.storage import keys
from questloop.storage.store import NotFound


@dataclass
class ArchiveRoom:
    """The cells of one room: a cell is a room with what was achieved."""

    room: Room
    cells: int = 0
    held: int = 0  # with a state to start from
    seen: int = 0  # times that an episode came into one of them
    chosen: int = 0  # episodes that started from one of them
    best: float = 0.0  # highest unshaped return that any was reached with
    milestones: int = 0  # bitmask of all that hold in any

    @property
    def name(self) -> str:
        return f"{self.room[0]}:{self.room[1]:02x}"


class ArchiveBook:
    """Reads indices, never states."""

    def __init__(self, book: RunBook, game: GameSettings) -> None:
        self._book, self._game = book, game

    def newest(self) -> tuple[int | None, Mapping[str, IndexedCell]]:
        """The newest epoch whose checkpoint is there and its cells; (None, {}) where the archive is off."""
        exported = self._book.exported()
        if not exported:
            return None, {}
        epoch = exported[-1]
        try:
            return epoch, self._book.once(
                ("archive", epoch), lambda: read_index(self._book.store, keys.archive(epoch))
            )
        except NotFound:
            return None, {}

    @staticmethod
    def rooms(cells: Mapping[str, IndexedCell]) -> list[ArchiveRoom]:
        """Those that were seen least first: from there episodes start most."""
        found: dict[Room, ArchiveRoom] = {}
        for name, cell in cells.items():
            place, _, milestones = parse_cell_name(name)
            room = found.setdefault((place >> 8, place & 255), ArchiveRoom((place >> 8, place & 255)))
            room.best = max(room.best, cell.raw_return) if room.cells else cell.raw_return
            room.cells += 1
            room.held += cell.held
            room.seen += cell.seen
            room.chosen += cell.chosen
            room.milestones |= milestones
        return sorted(found.values(), key=lambda room: (room.seen, room.room))

    def title(self, milestones: int) -> str:
        """The milestone that comes last in the game; empty where none holds."""
        names = self._profile.milestone_names(milestones)
        titles = {milestone.key: milestone.title for milestone in self._profile.milestones}
        return titles[names[-1]] if names else ""

    @cached_property
    def _profile(self) -> Profile:
        return profile_in_force(self._game)
