"""The outcome of a segment: whether a new milestone followed within the time of the next three.

Known only afterwards and shown to no judge, so no judge can be right by reading it.
"""

from __future__ import annotations

from collections.abc import Collection

from questloop.episodes.reader import SegmentReader
from questloop.episodes.segment import EpisodeOutcome
from questloop.episodes.spans import window_steps


def outcomes(reader: SegmentReader, epoch: int) -> dict[str, bool]:
    """Whether a new milestone followed, by segment id, for those segments of an epoch where that is known."""
    known = {}
    for record in reader.episodes(epoch):
        over = record.outcome is EpisodeOutcome.TERMINATED
        for entry in record.segments:
            last = entry.first_step + entry.frames - 1
            followed = milestone_follows(
                last, record.milestones.values(), record.steps - 1, over, window_steps(record.segment_steps)
            )
            if followed is not None:
                known[entry.segment_id] = followed
    return known


def milestone_follows(
    last_step: int, milestones: Collection[int], played: int, terminated: bool, window: int
) -> bool | None:
    """Whether a milestone was first reached in the `window` steps after `last_step`; None: not known.

    `milestones` are the steps at which this episode reached each of its milestones first, `played` is the
    last step played, `terminated` says that the game itself ended the episode.

    Known once the whole window was played, or the game ended inside it. A window that a time limit or the
    epoch's end cuts short is unknown, also where a milestone was already reached in it: counting those alone
    would make milestones look more frequent than they are. So is a segment that nothing follows.
    """
    end = last_step + window
    if played <= last_step or not (played >= end or terminated):
        return None
    return any(last_step < step <= end for step in milestones)
