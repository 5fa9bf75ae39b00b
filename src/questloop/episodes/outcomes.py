"""What became of a segment: a new milestone within the next three segments of its episode.

Known only afterwards and shown to no judge, so no judge can be right by reading it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from questloop.episodes.reader import SegmentReader
from questloop.episodes.segment import Outcome

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

    Known once the whole window was played, or the game ended inside it. A window that a time limit or the
    epoch's end cuts short is unknown, also where a milestone was already reached in it: counting those alone
    would make milestones look more frequent than they are. So is a segment that nothing follows.
    """
    end = last_step + HORIZON_STEPS
    if facts.steps <= last_step or not (facts.steps >= end or facts.terminated):
        return None
    return any(last_step < step <= end for step in facts.milestones.values())


def known_outcomes(episodes: Iterable[EpisodeFacts]) -> dict[str, bool]:
    """Outcomes by segment id, of those that are known."""
    found = {}
    for facts in episodes:
        for segment_id, last_step in facts.last_steps.items():
            value = outcome(last_step, facts)
            if value is not None:
                found[segment_id] = value
    return found


def outcomes(reader: SegmentReader, epoch: int) -> dict[str, bool]:
    """Whether a new milestone followed, by segment id, where that is known; no judge sees it."""
    return known_outcomes(
        EpisodeFacts(
            last_steps={entry.segment_id: entry.first_step + entry.frames - 1 for entry in record.segments},
            milestones=record.milestones,
            steps=record.steps - 1,
            terminated=record.outcome is Outcome.TERMINATED,
        )
        for record in reader.episodes(epoch)
    )
