"""The length of a segment and of the window in which its outcome shows, and whether they fit into a run."""

from __future__ import annotations

from questloop.episodes.segment import SEGMENT_FRAMES
from questloop.settings import FRAMES_PER_SECOND

SEGMENT_GAME_FRAMES = 1_200
"""Frames of the game that a segment spans where episodes are short: 300 recorded ones of four frames."""

WINDOW_SEGMENTS = 3
"""A segment's outcome is what happens in the time of so many segments after it."""

_SHORTEST_GAME_FRAMES = 300  # five seconds, below which hardly anything happens in a segment


def segment_steps(frame_skip: int, episode_length: int) -> int:
    """Recorded frames of a whole segment, one per step.

    300, where an episode of `episode_length` steps holds a segment of those and its window. In shorter
    episodes a segment spans `SEGMENT_GAME_FRAMES` frames of the game, or a quarter of the episode where that
    is less, so that at least the first segment of an episode that is played to its end has its whole window.

    >>> segment_steps(4, 30_000), segment_steps(16, 30_000), segment_steps(16, 400), segment_steps(16, 200)
    (300, 300, 75, 50)
    """
    quarter = episode_length // (1 + WINDOW_SEGMENTS)
    if quarter >= SEGMENT_FRAMES:
        return SEGMENT_FRAMES
    return max(1, min(SEGMENT_GAME_FRAMES // frame_skip, quarter))


def window_steps(segment: int) -> int:
    """Steps after a segment within which a new milestone decides about it; `segment`: `segment_steps`."""
    return WINDOW_SEGMENTS * segment


def misfits(frame_skip: int, episode_length: int, epoch_steps: int, slots: int) -> list[str]:
    """What does not fit together, each in a line that says what to set. `slots`: emulators of a run."""
    steps = segment_steps(frame_skip, episode_length)
    whole = steps + window_steps(steps)
    lines = []
    shortest = -(-_SHORTEST_GAME_FRAMES // frame_skip)
    if steps < min(shortest, SEGMENT_FRAMES):
        least = (1 + WINDOW_SEGMENTS) * min(shortest, SEGMENT_FRAMES)
        lines.append(
            f"EPISODE_LENGTH={episode_length}: a segment has {steps} steps, "
            f"{steps * frame_skip / FRAMES_PER_SECOND:.1f} s of play, which says little to a judge; "
            f"set EPISODE_LENGTH to at least {least}"
        )
    played = epoch_steps // slots
    if played < steps:
        lines.append(
            f"EPOCH_STEPS={epoch_steps}: each of {slots} emulators plays {played} steps, not one segment of "
            f"{steps}, so an epoch may leave nothing to judge; set EPOCH_STEPS to at least {slots * whole}"
        )
    elif played < whole:
        lines.append(
            f"EPOCH_STEPS={epoch_steps}: each of {slots} emulators plays {played} steps, and what follows a "
            f"segment is known {whole} steps after its beginning; set EPOCH_STEPS to at least {slots * whole}"
        )
    return lines
