"""The rule-based judge of states: it reads the guide in the prompt and counts what is left of the quest.

It knows no more than a language model is told: the guide's text and the state's. Progress is measured in
rooms along the guide's aims: every aim that is done adds the rooms of its leg, those still to cross to the
next one are taken off, and within a room nearness to the way on adds less than a room.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from questloop.episodes.plain import counted
from questloop.errors import UsageError
from questloop.game.guide import Aim, Guide, Side, Tile, Way
from questloop.judges.rules import Answer
from questloop.judges.states import HEAD

VERSION = "quest-1"

_HALF_WAY = 8.0
"""tiles at which the way on is half a room away"""
_SURENESS = 2.0
"""log-odds per room in comparing two states"""
_COLUMNS, _ROWS = 10, 8
_MILESTONES = 5.0
"""milestones that are 1 - 1/e of a quest that nobody has written a guide for"""

_PLACE = re.compile(r"^Place: room ([0-7]):([0-9a-f]{2}), tile (\d+),(\d+)", re.MULTILINE)
_REACHED = re.compile(r"^Reached: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Standing:
    """A state, read back from its text."""

    reached: frozenset[str]
    place: int
    tile: Tile


def is_state(text: str) -> bool:
    """Whether a text is that of a state, and not of a segment."""
    return text.lstrip().startswith(HEAD)


def judge(system: str, text: str) -> Answer:
    """How far along the quest the state of `text` is, 0 to 1; `system` begins with the guide, if any."""
    return _answer(_route(system), read(text))


def compare(system: str, first: str, second: str) -> Answer:
    """The probability that `first` is nearer to the end of the quest than `second`."""
    route = _route(system)
    a, b = (float(_answer(route, read(text))["overall"] or 0) for text in (first, second))
    gap = (a - b) * (_MILESTONES if route is None else route.rooms)
    odds = min(max(_SURENESS * gap, -50.0), 50.0)
    return {"reason": f"rule-based: {gap:+.2f} rooms", "overall": round(1 / (1 + math.exp(-odds)), 4)}


def read(text: str) -> Standing:
    """Parse the text of a state; what is not there is nothing, or nowhere."""
    place, reached = _PLACE.search(text), _REACHED.search(text)
    names = [] if reached is None or reached[1] == "nothing" else reached[1].split(", ")
    if place is None:
        return Standing(frozenset(names), -1, (0, 0))
    number = int(place[1]) << 8 | int(place[2], 16)
    return Standing(frozenset(names), number, (int(place[3]), int(place[4])))


@dataclass(frozen=True)
class _Route:
    """A quest as a walk: `credit[i]` rooms are behind who has done i aims and stands before the next one."""

    guide: Guide
    credit: tuple[int, ...]
    rooms: int


def _answer(route: _Route | None, standing: Standing) -> Answer:
    if route is None:
        count = len(standing.reached)
        reason = f"rule-based: no guide; {counted(count, 'milestone')} reached"
        return {"reason": reason, "overall": round(1 - math.exp(-count / _MILESTONES), 4)}
    aims = route.guide.aims
    done = route.guide.stage(standing.reached)
    if done == len(aims):
        return {"reason": f"rule-based: all {done} aims done", "overall": 1.0}
    left = _rooms_left(route.guide, standing, aims[done])
    progress = (route.credit[done] - left) / route.rooms
    return {
        "reason": f"rule-based: {done} of {len(aims)} aims done, {left:.1f} rooms to {aims[done].key}",
        "overall": round(min(max(progress, 0.0), 1.0), 6),
    }


@lru_cache(maxsize=8)
def _route(system: str) -> _Route | None:
    """The quest of the guide in a system message; None where there is none, or it lists no aims."""
    try:
        guide = Guide.parse(system)
    except UsageError:
        return None
    if not guide.aims:
        return None
    places = [aim.place for aim in guide.aims]
    first = max(guide.rooms_to(places[0]).values()) + 1
    legs = [guide.rooms_to(there).get(here, 0) + 1 for here, there in pairwise(places)]
    credit = tuple(accumulate(legs, initial=first))
    return _Route(guide, credit, credit[-1])


def _rooms_left(guide: Guide, standing: Standing, aim: Aim) -> float:
    """Rooms to cross to an aim, and how much of this one."""
    distances = guide.rooms_to(aim.place)
    rooms = distances.get(standing.place)
    if rooms is None:  # no way is known from here
        return max(distances.values()) + 1.0
    tiles = _tiles(standing.tile, guide.next_way(standing.place, aim.place), aim)
    return rooms + tiles / (tiles + _HALF_WAY)


def _tiles(at: Tile, way: Way | None, aim: Aim) -> float:
    """Tiles from `at` to where the room is left, or to the aim in it, as the crow walks."""
    target = aim.tile if way is None else way.tile
    if target is not None:
        return abs(at[0] - target[0]) + abs(at[1] - target[1])
    if way is None or way.side is None:
        return 0.0
    column, row = at
    to_edge = {Side.UP: row, Side.RIGHT: _COLUMNS - column, Side.DOWN: _ROWS - row, Side.LEFT: column}
    return float(max(to_edge[way.side], 0))
