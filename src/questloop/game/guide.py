"""A game's guide: the booklet that comes with it, read by people, language models and the planner.

A guide is one Markdown text. Two of its sections have a fixed form, so that no second copy is needed for
programs: `## Places`, a list of rooms and how they connect, and `## Aims`, a table of what to do in order.
It is knowledge about the game, as a reader of its booklet has it, and no reward.

```text
## Places
- 0:21 Waking meadow: left 0:20; up 0:11 at 4,0; door 7,1 to 4:21

## Aims
| aim | what | where | needs | how |
|---|---|---|---|---|
| sword_1 | Take the twig blade | 0:20 tile 4,2 | - | Walk against the stump. |
```
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from importlib import resources
from pathlib import Path

from questloop.errors import UsageError

NOWHERE = -1
"""No place."""

Tile = tuple[int, int]
"""Column and row of a metatile, from the top left of its room."""


class Side(IntEnum):
    """An edge of a room, in the order of the hero's directions."""

    UP = 0
    RIGHT = 1
    DOWN = 2
    LEFT = 3


@dataclass(frozen=True)
class Way:
    """How a room is left: over `side`, at `tile` where only one leads on; or by stepping on the door `tile`.

    `place` and `to` are `group * 256 + room`.
    """

    place: int
    to: int
    side: Side | None = None
    tile: Tile | None = None


@dataclass(frozen=True)
class Aim:
    """Something to do next: it is done while the milestone `key` holds.

    `place` is the room (`group * 256 + room`), `tile` the thing in it, None where entering it is enough.
    `needs` are milestones that come before it.
    """

    key: str
    what: str
    place: int
    tile: Tile | None = None
    needs: tuple[str, ...] = ()
    how: str = ""


@dataclass(frozen=True)
class Guide:
    """A guide as text, and what its two fixed sections say. `names`: of rooms, by `group * 256 + room`."""

    text: str = field(repr=False)
    names: Mapping[int, str]
    ways: tuple[Way, ...]
    aims: tuple[Aim, ...]

    @classmethod
    def parse(cls, text: str, name: str = "guide") -> Guide:
        """Read a guide. Raises `UsageError` that names the line which has not the form."""
        names: dict[int, str] = {}
        ways: list[Way] = []
        aims: list[Aim] = []
        section = ""
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{name}, line {number}"
            if line.startswith("## "):
                section = line[3:].strip().lower()
            elif section == "places" and line.startswith("- "):
                place, title, found = _place(line[2:], where)
                names[place] = title
                ways += found
            elif section == "aims" and line.startswith("|") and not _HEAD.match(line):
                aims.append(_aim(line, where))
        for way in ways:
            if way.to not in names:
                raise UsageError(
                    f"{name}: a way leads to {place_name(way.to)}, which is no place of the guide"
                )
        for aim in aims:
            if aim.place not in names:
                raise UsageError(
                    f"{name}: aim {aim.key} lies in {place_name(aim.place)}, which is no place of it"
                )
        return cls(text, names, tuple(ways), tuple(aims))

    @classmethod
    def read(cls, path: Path) -> Guide:
        """The guide in a file. Raises `UsageError`."""
        try:
            return cls.parse(path.read_text("utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"guide {path}: {error}; GUIDE names a Markdown file") from None

    def stage(self, reached: Container[str]) -> int:
        """How many of its aims are behind who has `reached` these milestones: all up to the furthest that is
        done, since what was passed by was not needed."""
        return max((number for number, aim in enumerate(self.aims, 1) if aim.key in reached), default=0)

    def leading(self, places: Sequence[int]) -> Guide:
        """The guide with other `places` for its aims, in their order, and no thing in them named."""
        aims = (replace(aim, place=there, tile=None) for aim, there in zip(self.aims, places, strict=True))
        return replace(self, aims=tuple(aims))

    def rooms_to(self, place: int) -> dict[int, int]:
        """How many rooms lie between each room and `place` along the guide's ways; 0 for `place` itself.

        Rooms from which no way leads there are not in it.
        """
        return self._distances.get(place, {place: 0})

    def next_way(self, place: int, to: int) -> Way | None:
        """The first way of a shortest route; None where `place` is `to` or no route is known."""
        left = self.rooms_to(to)
        ways = [way for way in self._from.get(place, ()) if left.get(way.to, _FAR) < left.get(place, _FAR)]
        return min(ways, key=lambda way: left[way.to], default=None)

    @cached_property
    def _from(self) -> dict[int, list[Way]]:
        found: dict[int, list[Way]] = {}
        for way in self.ways:
            found.setdefault(way.place, []).append(way)
        return found

    @cached_property
    def _distances(self) -> dict[int, dict[int, int]]:
        into: dict[int, list[int]] = {}
        for way in self.ways:
            into.setdefault(way.to, []).append(way.place)
        return {place: _breadth_first(place, into) for place in self.names}


def bundled_guide(name: str) -> Guide:
    """The guide of a bundled game. Raises `UsageError`."""
    text = (resources.files("questloop.game") / "guides" / f"{name}.md").read_text("utf-8")
    return Guide.parse(text, f"guide of {name}")


def place_name(place: int) -> str:
    """A room as a guide writes it.

    >>> place_name(0x4_21)
    '4:21'
    """
    return f"{place >> 8}:{place & 255:02x}"


_FAR = 1 << 20
_HEAD = re.compile(r"\|\s*(aim\s*\||:?-)")
_PLACE = re.compile(r"([0-7]):([0-9a-f]{2})")
_WAY = re.compile(
    r"(?P<side>up|right|down|left) (?P<to>\S+)(?: at (?P<at>\d+,\d+))?"
    r"|door (?P<door>\d+,\d+) to (?P<inside>\S+)"
)
_WHERE = re.compile(r"(?P<place>\S+)(?: tile (?P<tile>\d+,\d+))?")


def _breadth_first(place: int, into: Mapping[int, Iterable[int]]) -> dict[int, int]:
    found, queue = {place: 0}, deque([place])
    while queue:
        here = queue.popleft()
        for before in into.get(here, ()):
            if before not in found:
                found[before] = found[here] + 1
                queue.append(before)
    return found


def _number(text: str, where: str) -> int:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"{where}: {text!r} is no room; write its group and room, as in 4:21")
    return int(found[1]) << 8 | int(found[2], 16)


def _tile(text: str | None) -> Tile | None:
    if text is None:
        return None
    column, row = text.split(",")
    return int(column), int(row)


def _place(line: str, where: str) -> tuple[int, str, list[Way]]:
    head, _, rest = line.partition(": ")
    number, _, title = head.partition(" ")
    place = _number(number, where)
    ways = []
    for part in filter(None, (part.strip() for part in rest.split(";"))):
        found = _WAY.fullmatch(part)
        if found is None:
            raise UsageError(
                f"{where}: {part!r} is no way; write `left 0:20`, `up 4:11 at 4,0` or `door 7,1 to 4:21`"
            )
        if found["side"]:
            way = Way(place, _number(found["to"], where), Side[found["side"].upper()], _tile(found["at"]))
        else:
            way = Way(place, _number(found["inside"], where), None, _tile(found["door"]))
        ways.append(way)
    return place, title.split(",")[0].strip(), ways


def _aim(line: str, where: str) -> Aim:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) != 5:
        raise UsageError(f"{where}: an aim has five columns (aim, what, where, needs, how), not {len(cells)}")
    key, what, at, needs, how = cells
    found = _WHERE.fullmatch(at)
    if found is None:
        raise UsageError(f"{where}: {at!r} says no place; write `4:22 tile 7,2` or `4:21`")
    named = () if needs in ("", "-") else tuple(need.strip() for need in needs.split(","))
    return Aim(key, what, _number(found["place"], where), _tile(found["tile"]), named, how)
