"""The rule-based judge: scores by arithmetic on the text and picture that a language model would receive.

It knows nothing else: no rewards, no outcomes, no files. Its three roles look at different things (the state
judge at the hero and its ways, the puzzle judge at puzzles and enemies, the vision judge at places and harm),
so their agreement says something. What each sees is weighed into `overall`, the probability of a next step of
the adventure soon. The weights are fixed; `benchmarks/judges/README.md` says what they were fitted on and
what they are worth elsewhere.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image, UnidentifiedImageError

from questloop.episodes.plain import counted
from questloop.judges.contact_sheet import COLUMNS, HEIGHT, LABEL, WIDTH
from questloop.llm.routes import Role

VERSION = "rules-4"
SAME_PICTURE = 0.06
"""mean absolute difference, 0..1, below which two pictures show the same place"""

Answer = dict[str, str | float | None]

_COUNT = re.compile(r"([a-z][a-z ]*?) (-?\d+)(?:,|$)")


@dataclass(frozen=True)
class TextReading:
    """A summary read back from its text."""

    steps: int
    counts: Mapping[str, int]
    events: tuple[str, ...]
    start: str
    end: str

    def having(self, *words: str) -> int:
        """Events that begin with one of `words`."""
        return sum(event.startswith(words) for event in self.events)

    def share(self, name: str) -> float:
        """A count of steps as a share of all, 0 to 1."""
        return min(self.counts.get(name, 0) / max(self.steps, 1), 1.0)


def read(text: str) -> TextReading:
    """Parse a summary; a text that is none gives zeros.

    >>> read("Segment of 3 steps, 0 to 2.\\nCounts: rooms 2, tiles 5").counts["tiles"]
    5
    """
    lines = [line.strip() for line in text.splitlines()]
    named = {name: rest for line in lines for name, _, rest in [line.partition(": ")] if rest}
    length = re.search(r"Segment of (\d+) steps", text)
    return TextReading(
        steps=int(length[1]) if length else 0,
        counts={name: int(value) for name, value in _COUNT.findall(named.get("Counts", ""))},
        events=tuple(line.partition(" ")[2] for line in lines if line[:1].isdigit()),
        start=named.get("Start", ""),
        end=named.get("End", ""),
    )


def judge(role: Role, text: str, picture: bytes | None) -> Answer:
    """The answer of a role to a segment."""
    return _JUDGES[role](read(text), picture)


def compare(first: str, second: str) -> Answer:
    """The probability that the adventure moves on sooner after `first` than after `second`.

    From the log-odds that the state judge gives each alone, so that its comparisons and its scores agree.
    """
    gap = _log_odds(Role.STATE, _state_sees(read(first))) - _log_odds(Role.STATE, _state_sees(read(second)))
    return {"reason": f"rule-based: {gap:+.2f} in log-odds of a next step", "overall": _sigmoid(gap)}


def _state(reading: TextReading, _: bytes | None) -> Answer:
    points = _progress_points(reading)
    seen = _state_sees(reading)
    tiles = counted(reading.counts.get("tiles", 0), "tile")
    ground = seen["health"] * (0.5 if seen["unarmed"] else 1.0)
    return {
        "reason": f"rule-based: {points:.2f} points of progress, {tiles}; {_why(Role.STATE, seen)}",
        "progress": _saturate(points * ground, 2.5),
        "dialog": _dialog(reading),
        "efficiency": _efficiency(reading),
        "overall": _overall(Role.STATE, seen),
    }


def _state_sees(reading: TextReading) -> dict[str, float]:
    return {
        "health": _health(reading) if reading.steps else 0.0,  # what says nothing speaks for nothing
        "pushed": reading.share("pushed"),
        "idle": reading.share("stood") + reading.share("in menu"),
        "unarmed": float(_enemies(reading) > 0 and not _status(reading.end, "sword")),
    }


def _puzzle(reading: TextReading, _: bytes | None) -> Answer:
    solved = reading.having("door opened", "boss keys", "essence")
    part = reading.having("keys", "button pressed", "switch hit", "torch lit")
    cleared, tried = reading.having("room cleared"), reading.having("block pushed", "enemies")
    there = solved + part + cleared + tried > 0 or reading.counts.get("in dungeon", 0) > 0
    seen = {
        "solved": min(solved + part, 2) / 2,
        "fought": min(cleared + 0.3 * reading.having("enemies"), 1.5) / 1.5,
        "enemies": min(_enemies(reading), 3) / 3,
    }
    return {
        "reason": (
            f"rule-based: {solved} solved, {counted(part, 'part')}, "
            f"{counted(cleared, 'room')} cleared, {counted(tried, 'attempt')}; {_why(Role.PUZZLE, seen)}"
        ),
        "puzzle": _saturate(1.5 * solved + part + 0.6 * cleared + 0.1 * tried, 1.5) if there else None,
        "overall": _overall(Role.PUZZLE, seen),
    }


def _vision(reading: TextReading, picture: bytes | None) -> Answer:
    distinct, shown = distinct_pictures(picture) if picture else (reading.counts.get("rooms", 1), 0)
    different = (distinct - 1) / (shown - 1) if shown > 1 else _saturate(distinct - 1, 2.0)
    first = reading.counts.get("first visits", 0)
    hurt = min(reading.counts.get("damage", 0), 3) / 3
    seen = {"places": min(distinct - 1, 4) / 4, "first": min(first, 3) / 3, "hurt": hurt}
    return {
        "reason": (
            f"rule-based: {distinct} different of {counted(shown, 'picture')}, "
            f"{counted(first, 'first visit')}; {_why(Role.VISION, seen)}"
        ),
        "novelty": round((0.5 * different + 0.5 * _saturate(first, 2.0)) * (1 - 0.5 * hurt), 4),
        "overall": _overall(Role.VISION, seen),
    }


_JUDGES: dict[Role, Callable[[TextReading, bytes | None], Answer]] = {
    Role.STATE: _state,
    Role.PUZZLE: _puzzle,
    Role.VISION: _vision,
}

_BIAS = {Role.STATE: -0.8, Role.PUZZLE: -1.8, Role.VISION: -2.0}
_WEIGHTS = {
    Role.STATE: {"health": 1.8, "pushed": -3.8, "idle": -4.0, "unarmed": -2.6},
    Role.PUZZLE: {"solved": 1.9, "fought": 1.5, "enemies": -2.3},
    Role.VISION: {"places": 1.5, "first": 2.5, "hurt": -1.5},
}
"""of a logistic regression on what a role sees, each 0 to 1, rounded"""


def _overall(role: Role, seen: Mapping[str, float]) -> float:
    """The probability of a milestone within the next three segments."""
    return _sigmoid(_log_odds(role, seen))


def _why(role: Role, seen: Mapping[str, float]) -> str:
    """What makes `overall`, as a sum: one number says little of play that differs little."""
    parts = [(name, _WEIGHTS[role][name] * value) for name, value in seen.items()]
    terms = [f"{name} {value:+.2f}" for name, value in parts if abs(value) >= 0.005]
    return f"overall {_overall(role, seen):.2f}: log-odds {', '.join([f'{_BIAS[role]:+.2f}', *terms])}"


def _log_odds(role: Role, seen: Mapping[str, float]) -> float:
    return _BIAS[role] + sum(_WEIGHTS[role][name] * value for name, value in seen.items())


def _sigmoid(score: float) -> float:
    return round(1 / (1 + math.exp(-score)), 4)


def _progress_points(reading: TextReading) -> float:
    points = 0.5 * reading.counts.get("new rooms", 0)
    points += 2.0 * reading.having("sword", "shield", "item", "max health", "reached")
    points += 1.5 * reading.having("keys", "boss keys") + 1.0 * reading.having("door opened")
    points += 4.0 * reading.having("essence")
    points += 0.4 * reading.counts.get("different dialogs", 0)
    points += 0.02 * max(0, _status(reading.end, "rupees") - _status(reading.start, "rupees"))
    return points - 1.0 * reading.counts.get("deaths", 0)


def _dialog(reading: TextReading) -> float | None:
    """More for each different conversation, less for repeats and for time spent stuck in one."""
    begun = reading.counts.get("dialogs", 0)
    inside = reading.counts.get("in dialog", 0)
    if not begun and not inside:
        return None
    different = reading.counts.get("different dialogs", 0)
    fresh = different / begun if begun else 0.5
    stuck = inside / max(reading.steps, 1)
    return round(_saturate(max(different, 0.5), 1.5) * fresh * (1 - 0.5 * stuck), 4)


def _efficiency(reading: TextReading) -> float:
    """Different tiles a move, less for turning back, standing and menus."""
    moves = reading.counts.get("tile moves", 0)
    if not moves:
        return 0.0
    fresh = min(1.0, reading.counts.get("tiles", 0) / (moves + 1))
    back = reading.counts.get("turned back", 0) / moves
    idle = reading.share("stood") + reading.share("in menu")
    free = (1 - 0.5 * back) * (1 - 0.5 * reading.share("pushed"))
    return round(max(0.0, fresh * free * (1 - idle)), 4)


def _health(reading: TextReading) -> float:
    """Share of the health left at the end."""
    found = re.search(r"(?:^|, )health (\d+)/(\d+)", reading.end)
    return min(int(found[1]) / max(int(found[2]), 1), 1.0) if found else 1.0


def _enemies(reading: TextReading) -> int:
    """Enemies still standing in the room at the end."""
    return _status(reading.end, "enemies")


def _status(line: str, name: str) -> int:
    """A number of a start or end line."""
    found = re.search(rf"(?:^|, ){name} (-?\d+)", line)
    return int(found[1]) if found else 0


def _saturate(points: float, scale: float) -> float:
    return round(1 - math.exp(-max(points, 0.0) / scale), 4)


def distinct_pictures(sheet: bytes) -> tuple[int, int]:
    """How many pictures of a contact sheet differ from those before, and how many there are."""
    try:
        with Image.open(io.BytesIO(sheet), formats=["PNG"]) as image:
            pixels = np.asarray(image.convert("L"), dtype=np.float32) / 255
    except (UnidentifiedImageError, OSError, SyntaxError):
        return 1, 0
    tall, wide = HEIGHT + LABEL, WIDTH
    panels = [
        pixels[top : top + HEIGHT, left : left + wide]
        for top in range(0, pixels.shape[0] - tall + 1, tall)
        for left in range(0, min(pixels.shape[1], COLUMNS * wide) - wide + 1, wide)
    ]
    small = [panel.reshape(18, 8, 20, 8).mean(axis=(1, 3)) for panel in panels if panel.min() < 1]
    different: list[np.ndarray] = []
    for panel in small:
        if all(float(np.abs(panel - other).mean()) > SAME_PICTURE for other in different):
            different.append(panel)
    return len(different), len(small)
