"""Imagines states along the guide's route that nobody has played yet, so that judges can score them.

A reward model learns nothing of the next room from rooms that were visited; a reader of the guide knows it.
So beside the cells that were seen, judges are asked about the rooms of every leg of the quest, with the aims
before it done. They are as few as the guide is long, and judged once, as cells are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from questloop.game.guide import NOWHERE, Guide, place_name
from questloop.judges.states import describe_place

PREFIX = "ahead-"


@dataclass(frozen=True)
class Waypoint:
    """A room on the way to the guide's next aim, with the aims `reached` before it done."""

    place: int
    reached: tuple[str, ...]

    @property
    def cell_id(self) -> str:
        """Takes the place of a cell's id, and is none."""
        return f"{PREFIX}{len(self.reached):02d}-{self.place:04x}"

    @property
    def text(self) -> str:
        """What judges get to know of it."""
        return describe_place(place_name(self.place), self.reached)


def is_imagined(cell_id: str) -> bool:
    """Whether an id among those of cells is a waypoint's."""
    return cell_id.startswith(PREFIX)


def waypoints(guide: Guide) -> list[Waypoint]:
    """The rooms of the route from each aim of the guide to the next one, both ends included, once each."""
    found: dict[Waypoint, None] = {}
    reached: tuple[str, ...] = ()
    here = guide.aims[0].place if guide.aims else 0
    for aim in guide.aims:
        found |= dict.fromkeys(Waypoint(place, reached) for place in _route(guide, here, aim.place))
        reached, here = (*reached, aim.key), aim.place
    return list(found)


def choices(guide: Guide, stages: int) -> list[Waypoint]:
    """Every place of the guide at each of the first `stages` stages of the quest, among which judges choose
    where to go."""
    keys = tuple(aim.key for aim in guide.aims)
    return [Waypoint(place, keys[:stage]) for stage in range(min(stages, len(keys))) for place in guide.names]


def chosen_places(guide: Guide, scores: Mapping[str, float]) -> tuple[int, ...]:
    """The place that scores highest at each stage of the quest, in the order of the guide's aims.

    `scores`: how far along each state is, by the id of its waypoint. `NOWHERE` where not all of a stage's
    places have a score.
    """
    found = []
    for stage in range(len(guide.aims)):
        reached = tuple(aim.key for aim in guide.aims[:stage])
        score = {place: scores.get(Waypoint(place, reached).cell_id) for place in guide.names}
        known = {place: value for place, value in score.items() if value is not None}
        found.append(max(known, key=known.__getitem__) if len(known) == len(score) else NOWHERE)
    return tuple(found)


def _route(guide: Guide, here: int, there: int) -> Iterator[int]:
    yield here
    while (way := guide.next_way(here, there)) is not None:
        here = way.to
        yield here
