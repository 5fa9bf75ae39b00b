"""What became of a segment: a new milestone within the next three segments of its episode.

Known only afterwards and shown to no judge, so no judge can be right by reading it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SEGMENT_STEPS = 300
HORIZON_STEPS = 3 * SEGMENT_STEPS


@dataclass(frozen=True)
class EpisodeFacts:
    """What is known of an episode so far."""

    last_steps: Mapping[str, int]
    """the episode step that each of its segments ends at"""
    milestones: Mapping[str, int]
    """the step at which each milestone was first reached in this episode"""
    steps: int
    """the last step played"""
    terminated: bool
    """it ended in the game's terms, rather than by a time limit or not at all"""


def outcome(last_step: int, facts: EpisodeFacts) -> bool | None:
    """Whether a milestone was first reached in the HORIZON_STEPS after `last_step`.

    None while the window is cut short by a time limit or an episode that goes on, and for a segment that
    nothing follows.
    """
    end = last_step + HORIZON_STEPS
    if any(last_step < step <= end for step in facts.milestones.values()):
        return True
    if facts.steps <= last_step:
        return None
    return False if facts.steps >= end or facts.terminated else None


def known_outcomes(episodes: Iterable[EpisodeFacts]) -> dict[str, bool]:
    """Outcomes by segment id, of those that are known."""
    found = {}
    for facts in episodes:
        for segment_id, last_step in facts.last_steps.items():
            value = outcome(last_step, facts)
            if value is not None:
                found[segment_id] = value
    return found
