"""States of a segment to a short text within a token budget. The only module here that reads state keys.

Rewards are never read, so no judge can see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

VERSION = 1
TOKEN_BUDGET = 700
CHARACTERS_A_TOKEN = 2.6
"""low for English, right for text that is half digits"""

Line = Mapping[str, Any]


class Weight(IntEnum):
    """What is kept when not all fits: higher first."""

    PURSE = 0
    HEALTH = 1
    DIALOG = 2
    ROOM = 3
    PUZZLE = 4
    GAIN = 5


@dataclass(frozen=True)
class Event:
    """Something that changed at a step of the episode."""

    step: int
    weight: Weight
    text: str


@dataclass(frozen=True)
class Summary:
    """The text that judges read, and the events it was made from."""

    text: str
    events: tuple[Event, ...]


def compress(lines: Sequence[Line], token_budget: int = TOKEN_BUDGET) -> Summary:
    """Summarise the lines of a segment's `states.jsonl`."""
    if not lines:
        raise ValueError("a segment without states")
    events = tuple(_events(lines))
    head = [_header(lines), f"Start: {_status(_state(lines[0]))}"]
    tail = [f"End: {_status(_state(lines[-1]))}", f"Counts: {_counts(lines, events)}"]
    room = token_budget * CHARACTERS_A_TOKEN - sum(len(line) + 1 for line in head + tail)
    kept = _fitting(events, room)
    body = [f"{event.step} {event.text}" for event in kept] or ["none"]
    left_out = Counter(event.weight.name.lower() for event in events) - Counter(
        event.weight.name.lower() for event in kept
    )
    if left_out:
        body.append("left out: " + ", ".join(f"{count} {name}" for name, count in sorted(left_out.items())))
    return Summary("\n".join([*head, "Events:", *body, *tail]), events)


def estimate_tokens(text: str) -> int:
    """A rough count, on the high side."""
    return round(len(text) / CHARACTERS_A_TOKEN)


def _fitting(events: Sequence[Event], room: float) -> list[Event]:
    """Events that fit, heaviest first, the earlier first among equals; in order of play."""
    room -= 80
    kept = []
    for event in sorted(events, key=lambda event: (-event.weight, event.step)):
        room -= len(event.text) + len(str(event.step)) + 2
        if room < 0:
            break
        kept.append(event)
    return sorted(kept, key=lambda event: (event.step, -event.weight))


def _state(line: Line) -> Line:
    return line["state"]


def _number(state: Line, key: str) -> int:
    value = state.get(key, 0)
    return int(value) if isinstance(value, bool | int | float) else 0


def _room(state: Line) -> str:
    return f"{_number(state, 'group')}/{_number(state, 'room')}"


def _tile(state: Line) -> tuple[int, int]:
    return _number(state, "x") // 16, _number(state, "y") // 16


def _header(lines: Sequence[Line]) -> str:
    modes = Counter(str(line.get("mode") or "policy") for line in lines)
    acted = ", ".join(f"{mode} {count}" for mode, count in sorted(modes.items()))
    return f"Segment of {len(lines)} steps, {lines[0]['step']} to {lines[-1]['step']}. Acted: {acted}."


def _status(state: Line) -> str:
    column, row = _tile(state)
    parts = [
        f"room {_room(state)}",
        f"tile {column},{row}",
        f"health {_number(state, 'health')}/{_number(state, 'max_health')}",
        f"rupees {_number(state, 'rupees')}",
        f"keys {_number(state, 'small_keys')}",
        f"boss keys {_number(state, 'boss_keys')}",
        f"sword {_number(state, 'sword_level')}",
        f"essences {_number(state, 'essences').bit_count()}",
        f"dungeon {'yes' if _in_dungeon(state) else 'no'}",
    ]
    return ", ".join(parts)


def _in_dungeon(state: Line) -> bool:
    return _number(state, "dungeon") not in (0, 0xFF, -1)


def _events(lines: Sequence[Line]) -> Iterator[Event]:
    seen = {_room(_state(lines[0]))}
    for before, after in pairwise(lines):
        old, new, step = _state(before), _state(after), after["step"]
        if _room(old) != _room(new):
            fresh = " new" if _room(new) not in seen else ""
            seen.add(_room(new))
            yield Event(step, Weight.ROOM, f"room {_room(old)} > {_room(new)}{fresh}")
        yield from _gains(old, new, step)
        yield from _puzzles(old, new, step)
        yield from _dialogs(old, new, step)
        yield from _health(old, new, step)
        if _number(new, "rupees") > _number(old, "rupees"):
            yield Event(step, Weight.PURSE, f"rupees {_number(old, 'rupees')} > {_number(new, 'rupees')}")


GAINS = {"sword_level": "sword", "small_keys": "keys", "boss_keys": "boss keys", "max_health": "max health"}


def _gains(old: Line, new: Line, step: int) -> Iterator[Event]:
    for key, name in GAINS.items():
        if _number(new, key) > _number(old, key):
            yield Event(step, Weight.GAIN, f"{name} {_number(old, key)} > {_number(new, key)}")
    essences = _number(new, "essences") & ~_number(old, "essences")
    if essences:
        yield Event(step, Weight.GAIN, f"essence {essences.bit_length()} taken")


def _puzzles(old: Line, new: Line, step: int) -> Iterator[Event]:
    if _room(old) != _room(new):
        return
    set_now = _number(new, "triggers") & ~_number(old, "triggers")
    unset = _number(old, "triggers") & ~_number(new, "triggers")
    if set_now:
        yield Event(step, Weight.PUZZLE, f"trigger set {set_now:#04x}")
    if unset:
        yield Event(step, Weight.PUZZLE, f"trigger released {unset:#04x}")
    if _number(old, "switches") != _number(new, "switches"):
        yield Event(step, Weight.PUZZLE, "switch hit")
    if _number(new, "torches") > _number(old, "torches"):
        yield Event(step, Weight.PUZZLE, "torch lit")
    if _number(new, "block_moving") and not _number(old, "block_moving"):
        yield Event(step, Weight.PUZZLE, "block pushed")
    if _number(new, "small_keys") < _number(old, "small_keys"):
        yield Event(step, Weight.PUZZLE, "door opened with a key")
    if _number(old, "enemies") > _number(new, "enemies"):
        cleared = ", room cleared" if not _number(new, "enemies") else ""
        yield Event(
            step, Weight.PUZZLE, f"enemies {_number(old, 'enemies')} > {_number(new, 'enemies')}{cleared}"
        )


def _dialogs(old: Line, new: Line, step: int) -> Iterator[Event]:
    if _number(new, "text_active") and not _number(old, "text_active"):
        yield Event(step, Weight.DIALOG, f"dialog {_number(new, 'text_index')} begins")
    if _number(old, "text_active") and not _number(new, "text_active"):
        yield Event(step, Weight.DIALOG, f"dialog {_number(old, 'text_index')} ends")


def _health(old: Line, new: Line, step: int) -> Iterator[Event]:
    died = (_number(new, "dying") and not _number(old, "dying")) or (
        _number(new, "game_over") and not _number(old, "game_over") and not _number(old, "dying")
    )
    if died:
        yield Event(step, Weight.GAIN, "death")
    elif _number(new, "health") < _number(old, "health"):
        yield Event(
            step, Weight.HEALTH, f"damage, health {_number(old, 'health')} > {_number(new, 'health')}"
        )
    elif _number(new, "health") > _number(old, "health"):
        yield Event(
            step, Weight.HEALTH, f"healed, health {_number(old, 'health')} > {_number(new, 'health')}"
        )


def _counts(lines: Sequence[Line], events: Sequence[Event]) -> str:
    """Totals over the whole segment, events that were left out included."""
    states = [_state(line) for line in lines]
    spots = [(_room(state), *_tile(state)) for state in states]
    moves = sum(a != b for a, b in pairwise(spots))
    back = sum(a == c != b for a, b, c in zip(spots, spots[1:], spots[2:], strict=False))
    places = [(_room(state), _number(state, "x"), _number(state, "y")) for state in states]
    stood = sum(
        a == b and bool(_number(state, "has_control")) and not _number(state, "text_active")
        for a, b, state in zip(places, places[1:], states[1:], strict=False)
    )
    texts = Counter(event.text.split()[0] for event in events)
    dialogs = [event.text.split()[1] for event in events if event.text.endswith(" begins")]
    counts = {
        "rooms": len({spot[0] for spot in spots}),
        "room changes": texts["room"],
        "tiles": len(set(spots)),
        "tile moves": moves,
        "turned back": back,
        "stood": stood,
        "menu": sum(bool(_number(state, "menu_open")) for state in states),
        "dialogs": len(dialogs),
        "different dialogs": len(set(dialogs)),
        "in dialog": sum(bool(_number(state, "text_active")) for state in states),
        "damage": texts["damage,"],
        "deaths": texts["death"],
        "triggers set": sum(event.text.startswith("trigger set") for event in events),
        "in dungeon": sum(_in_dungeon(state) for state in states),
    }
    return ", ".join(f"{name} {count}" for name, count in counts.items())
