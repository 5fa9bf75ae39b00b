"""Shortens a segment's summary, for a model whose context must hold the whole question.

What is zero, what did not change and when it happened says little about what follows, and takes two thirds of
the tokens.
"""

from __future__ import annotations

import re
from itertools import groupby

LAST_EVENTS = 16
"""later events say more about what follows than earlier ones"""

_ROOMS = re.compile(r"room \S+ > ")
_LINES = ("Start", "End", "Counts")


def condense(summary: str) -> str:
    """The counts, the last events and the end of a summary of `judges.compress`; other text as it is.

    >>> print(condense('''Segment of 300 steps, 0 to 299. Acted: policy 300.
    ... Start: room 5:31, tile 5,1, health 6/12, keys 1, rupees 0
    ... Events:
    ... 5 room 5:31 > 5:21 new
    ... 184 block pushed
    ... 190 block pushed
    ... End: room 5:21, tile 5,2, health 6/12, keys 1, rupees 0
    ... Counts: rooms 2, new rooms 1, stood 42, deaths 0'''))
    Counts: rooms 2, new rooms 1, stood 42
    Events: room 5:21 new, block pushed
    From: room 5:31, tile 5,1
    Now: room 5:21, tile 5,2, health 6/12, keys 1
    """
    lines = summary.splitlines()
    named = dict(line.split(": ", 1) for line in lines if line.startswith(tuple(f"{n}: " for n in _LINES)))
    if len(named) < len(_LINES):
        return summary
    events = [_ROOMS.sub("room ", line.split(" ", 1)[1]) for line in lines if line[:1].isdigit()]
    told = [event for event, _ in groupby(events)][-LAST_EVENTS:]
    return "\n".join(
        [
            f"Counts: {_without_zeros(named['Counts'])}",
            f"Events: {', '.join(told) or 'none'}",
            f"From: {', '.join(named['Start'].split(', ')[:2])}",
            f"Now: {_without_zeros(named['End'])}",
        ]
    )


def _without_zeros(line: str) -> str:
    """The parts of a line that are not 0; `item sword 1` and the like only repeat `sword 1`."""
    parts = line.split(", ")
    said = {f"item {part}" for part in parts}
    return ", ".join(part for part in parts if not part.endswith(" 0") and part not in said)
