"""Turns judged states that nobody has played yet into observations that a reward model learns from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from questloop.episodes.cells import SeenCell
from questloop.game.guide import place_name
from questloop.game.imagination import imagine
from questloop.game.profiles import profile_in_force
from questloop.judges.ahead import waypoints
from questloop.judges.cells import CellScore
from questloop.settings import Settings

if TYPE_CHECKING:
    from questloop.reward_model.preferences import ScoredState

EACH = 6
"""cells that stand for what is not known of an imagined state"""


def imagined_states(
    seen: Sequence[SeenCell], scores: Mapping[str, CellScore], settings: Settings
) -> Iterator[ScoredState]:
    """Each judged waypoint of the guide, `EACH` times: what was seen in some cell, moved there.

    The cells are of the same room where it was visited, else of the same map, else any; which, a hash says.
    """
    from questloop.reward_model.preferences import ScoredState  # torch's room: judging does without it

    profile = profile_in_force(settings.game)
    guide = profile.guide
    known = {milestone.key for milestone in profile.milestones}
    for waypoint in waypoints(guide) if guide is not None else ():
        line = scores.get(waypoint.cell_id)
        if line is None or not known.issuperset(waypoint.reached):
            continue
        for number, cell in enumerate(_standing_in(seen, waypoint.place, waypoint.cell_id)):
            yield ScoredState(
                name=f"{waypoint.cell_id}+{number}" if number else waypoint.cell_id,
                episode=None,
                observation=imagine(cell.observation, profile, waypoint.place, waypoint.reached),
                score=line.score,
                spread=line.spread,
            )


def _standing_in(seen: Sequence[SeenCell], place: int, name: str) -> list[SeenCell]:
    room = place_name(place)
    group = room.partition(":")[0] + ":"
    kinds = (
        [each for each in seen if str(each.cell.state["room"]).startswith(at)] for at in (room, group, "")
    )
    chosen = next((kind for kind in kinds if kind), [])
    order = sorted(chosen, key=lambda each: hashlib.sha256(f"{name}:{each.cell.cell_id}".encode()).digest())
    return order[:EACH]
