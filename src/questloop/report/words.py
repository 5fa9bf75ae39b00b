"""What keys are called where a person reads them: settings, parts of the reward, how an episode ended.

Terminal, report and dashboard all take their words from here. Those of settings are their descriptions, so
that nothing is said twice.
"""

from __future__ import annotations

import re
from functools import cache

from questloop.episodes.segment import EpisodeOutcome
from questloop.settings import GROUPS

OUTCOMES = {
    EpisodeOutcome.RUNNING: "unfinished",
    EpisodeOutcome.TERMINATED: "game ended it",
    EpisodeOutcome.TRUNCATED: "time was up",
    EpisodeOutcome.ABANDONED: "runner lost",
}
"""How an episode ended, as far as it did."""

_GROUPS = {"llm": "Language models"}
_FIRST_THOUGHT = re.compile(r"[^,;]+")


def setting_title(name: str) -> str:
    """The description of a setting by its name, `learning rate of Adam` for `LR`; else the name."""
    return _descriptions().get(name.upper()) or name


def part_title(name: str) -> str:
    """A part of the reward: `first visit of a room in an episode` for `room`.

    It is the description of the part's weight up to the first comma; the name where there is no such weight.
    """
    found = _FIRST_THOUGHT.match(_descriptions().get(f"REWARD_{name.upper()}", ""))
    return found.group() if found else name.replace("_", " ")


def group_title(name: str) -> str:
    """A group of settings: `Training` for `training`."""
    return _GROUPS.get(name, name.capitalize())


@cache
def _descriptions() -> dict[str, str]:
    return {
        name.upper(): field.description or "" for kind in GROUPS for name, field in kind.model_fields.items()
    }
