"""What milestones and places are called, in place of their keys."""

from __future__ import annotations

import re
from functools import cached_property

from markupsafe import Markup, escape

from questloop.episodes.plain import counted
from questloop.errors import QuestloopError
from questloop.exploration.cells import parse_cell_name
from questloop.game.guide import place_name
from questloop.game.profile import Profile
from questloop.game.profiles import profile_in_force
from questloop.report.page_data import place_title
from questloop.settings import GameSettings
from questloop.storage.keys import EpisodeId


def episode_title(episode_id: str) -> str:
    """An episode of a run in words.

    >>> episode_title("mossgrove-s0-e0011-s014-00033")
    'epoch 11, agent 14, episode 33'
    """
    place = EpisodeId.parse(episode_id)
    return f"epoch {place.epoch}, agent {place.slot}, episode {place.ordinal}"


def commands(text: str) -> Markup:
    """A text with what stands in backquotes as code.

    >>> commands("run `questloop fleet up` & wait")
    Markup('run <code>questloop fleet up</code> &amp; wait')
    """
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


class Names:
    """Titles of the game's profile; a key in plain letters where the profile has none or cannot be had."""

    def __init__(self, game: GameSettings) -> None:
        self._game = game

    def milestone(self, key: str) -> str:
        """`Met the elder` for `met_elder`."""
        return self._milestones.get(key, key.replace("_", " "))

    def start(self, name: str) -> str:
        """Where an episode began; a cell of the archive by its room and how many milestones it has."""
        try:
            place, _, milestones = parse_cell_name(name.removeprefix("archive-"))
        except ValueError:
            return name.replace("_", " ")
        room = self.place(place_name(place))
        return f"archive: {room}, {counted(milestones.bit_count(), 'milestone')}"

    def place(self, room: str) -> str:
        """`Waking meadow` for `0:21`; the room itself where it has no name."""
        return place_title(self._profile, room)

    @cached_property
    def _milestones(self) -> dict[str, str]:
        return {each.key: each.title for each in self._profile.milestones} if self._profile else {}

    @cached_property
    def _profile(self) -> Profile | None:
        try:
            return profile_in_force(self._game)
        except QuestloopError:
            return None
