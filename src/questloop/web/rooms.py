"""The dashboard's map: rooms with their visits, the agents in them now, and pictures of them."""

from __future__ import annotations

import base64
import io
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from questloop.game.guide import Guide
from questloop.game.profile import Profile
from questloop.game.profiles import profile_in_force
from questloop.report import page_data
from questloop.report.book import RunBook
from questloop.report.images import OVERWORLD, ROOM_HEIGHT, ROOM_WIDTH, Room
from questloop.settings import GameSettings

LOOKED_AT = 60
"""segments that a first look at the map searches for pictures of rooms"""
LOOKED_AT_LATER = 12
"""and every later one, while a room has none"""


@dataclass(frozen=True)
class RoomCell:
    """A room of the map: `column` and `row` from 1."""

    room: Room
    visits: int
    share: float  # of the visits of the room visited most, logarithms
    column: int
    row: int
    pictured: bool
    title: str = ""  # how the profile names it

    @property
    def name(self) -> str:
        return f"{self.room[0]}:{self.room[1]:02x}"


class RoomBook:
    """Pictures of rooms, found a few at a time."""

    def __init__(self, book: RunBook, game: GameSettings) -> None:
        self._book, self._game = book, game
        self._lock = threading.Lock()
        self._pictures: dict[Room, bytes] = {}
        self._searched: set[str] = set()

    def picture(self, room: Room) -> bytes | None:
        """PNG of a room at rest, 160 x 128."""
        return self._pictures.get(room)

    def maps(self) -> list[tuple[str, list[RoomCell]]]:
        """The overworld as it lies, and all other rooms eight to a row."""
        self.search()
        visits = page_data.room_visits(self._book.so_far())
        most = max(visits.values(), default=1)
        above = sorted(room for room in visits if room[0] == OVERWORLD and visits[room])
        inside = sorted(room for room in visits if room[0] != OVERWORLD and visits[room])
        left = min((room & 15 for _, room in above), default=0)
        top = min((room >> 4 for _, room in above), default=0)

        def cell(room: Room, column: int, row: int) -> RoomCell:
            share = (visits[room] / most) ** 0.3
            title = self._profile.place_names.get(room, "")
            return RoomCell(room, visits[room], share, column, row, room in self._pictures, title)

        return [
            (
                "Overworld",
                [cell(room, (room[1] & 15) - left + 1, (room[1] >> 4) - top + 1) for room in above],
            ),
            (
                "Houses, caves and dungeons",
                [cell(room, index % 8 + 1, index // 8 + 1) for index, room in enumerate(inside)],
            ),
        ]

    def search(self) -> None:
        """Look through segments not looked at yet; another page waits for it rather than search too.

        Those of the newest epochs that entered a room without a picture come first. In a large run a room may
        get its picture only with a later look at the map.
        """
        with self._lock:
            self._look_at_living()
            played = self._book.played()
            wanted = set(page_data.room_visits(played)) - self._pictures.keys()
            budget = LOOKED_AT_LATER if self._searched else LOOKED_AT
            segments = page_data.Segments(self._book.store)
            for epoch in reversed(self._book.exported()):
                here = wanted & set(page_data.room_visits({epoch: played[epoch]}))
                ids = self._book.segments(epoch) if here else ()
                fresh = [name for name in ids if name not in self._searched]
                chosen = fresh[:: max(1, len(fresh) // budget)][:budget]
                self._searched |= set(chosen)
                found = segments.room_pictures(chosen, here)
                self._pictures |= {room: self._cropped(data) for room, data in found.items()}
                wanted -= found.keys()
                budget -= len(chosen)
                if not wanted or budget <= 0:
                    return

    def _look_at_living(self) -> None:
        """During the first epoch the screens of agents that play now are the only pictures of rooms."""
        for agent in self._book.agents().get("agents", []):
            with suppress(KeyError, TypeError, ValueError, OSError):  # not all there; another look has it
                group, room = agent["pictured"]
                if (group, room) not in self._pictures:
                    self._pictures[group, room] = self._cropped(base64.b64decode(agent["screen"]))

    @property
    def guide(self) -> Guide | None:
        """What the game's readers know beforehand; None for a game without a guide."""
        return self._profile.guide

    @cached_property
    def _profile(self) -> Profile:
        return profile_in_force(self._game)

    def _cropped(self, data: bytes) -> bytes:
        top = self._profile.room_top
        with Image.open(io.BytesIO(data)) as picture:
            room = picture.convert("RGB").crop((0, top, ROOM_WIDTH, top + ROOM_HEIGHT))
        out = io.BytesIO()
        room.save(out, "PNG", optimize=True)
        return out.getvalue()
