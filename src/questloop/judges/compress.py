"""Summarises the states of a segment as a short text within a token budget.

Rewards are never read, so no judge can see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

VERSION = 3
TOKEN_BUDGET = 700
CHARACTERS_A_TOKEN = 2.6
"""low for English, right for text that is half digits"""

VISITED = 0x10
"""room flag that the game sets on a hero's first visit, at the latest a few frames after it"""
LATE_FRAMES = 400
"""frames of the game at the end of a segment, which say how its player goes on"""
_USUAL_FRAMES = 4  # per step; a header says so where there are more or fewer

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
class SegmentSummary:
    """The text that judges read, and the events it was made from."""

    text: str
    events: tuple[Event, ...]


def compress(lines: Sequence[Line], token_budget: int = TOKEN_BUDGET) -> SegmentSummary:
    """Summarise the lines of a segment's `states.jsonl`."""
    if not lines:
        raise ValueError("a segment without states")
    moments = [_moment(line) for line in lines]
    events = tuple(_events(moments))
    reached = ", ".join(sorted(moments[0].milestones)) or "nothing"
    head = [_header(lines), f"Reached before: {reached}", f"Start: {_status(moments[0])}"]
    late = max(1, LATE_FRAMES // _frames_per_step(lines))
    tail = [f"End: {_status(moments[-1])}", f"Counts: {_counts(moments, events, late)}"]
    room = token_budget * CHARACTERS_A_TOKEN - sum(len(line) + 1 for line in head + tail)
    kept = _fitting(events, room)
    body = [f"{event.step} {event.text}" for event in kept] or ["none"]
    left_out = Counter(event.weight.name.lower() for event in events) - Counter(
        event.weight.name.lower() for event in kept
    )
    if left_out:
        body.append("left out: " + ", ".join(f"{count} {name}" for name, count in sorted(left_out.items())))
    return SegmentSummary("\n".join([*head, "Events:", *body, *tail]), events)


def shows_the_game(line: Line) -> bool:
    """Whether a frame shows the place, not a menu or a change of screens."""
    return not line["state"].get("menu") and not line["state"].get("transition")


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


@dataclass(frozen=True, slots=True)
class _Moment:
    """What is read of a recorded frame; a key that is not there is zero."""

    step: int
    room: str
    x: int
    y: int
    health: int
    max_health: int
    dungeon: int | None
    text: int | None
    owned: Mapping[str, int]
    essences: frozenset[int]
    milestones: frozenset[str]
    enemies: int
    buttons: int
    torches: int
    switches: int
    block_moving: bool
    visited: bool
    pushing: bool
    menu: bool
    control: bool
    dead: bool

    @property
    def place(self) -> tuple[str, int, int]:
        return self.room, self.x, self.y

    @property
    def spot(self) -> tuple[str, int, int]:
        return self.room, self.x // 16, self.y // 16


OWNED = {"keys": "keys", "boss_keys": "boss keys", "sword": "sword", "shield": "shield"}
"""state key to the word that judges read"""


def _moment(line: Line) -> _Moment:
    state = line["state"]
    read = state.get
    x, y = read("pos", (0, 0))
    health, max_health = read("health", (0, 0))
    owned = {word: read(key, 0) for key, word in OWNED.items()} | {"rupees": read("rupees", 0)}
    return _Moment(
        step=int(line["step"]),
        room=str(read("room", "")),
        x=x,
        y=y,
        health=health,
        max_health=max_health,
        dungeon=read("dungeon"),
        text=read("text"),
        owned=owned | {f"item {name}": level for name, level in read("items", {}).items()},
        essences=frozenset(read("essences", ())),
        milestones=frozenset(read("milestones", ())),
        enemies=read("enemies_left", 0),
        buttons=read("buttons", 0),
        torches=read("torches", 0),
        switches=read("switches", 0),
        block_moving=bool(read("block_moving", False)),
        visited=bool(read("room_flags", 0) & VISITED),
        pushing=bool(read("pushing", False)),
        menu=bool(read("menu", 0)),
        control=not read("no_control", False),
        dead=bool(read("dying", False) or read("game_over", False)),
    )


def _header(lines: Sequence[Line]) -> str:
    modes = Counter(str(line.get("mode") or "policy") for line in lines)
    acted = ", ".join(f"{mode} {count}" for mode, count in sorted(modes.items()))
    frames = _frames_per_step(lines)
    long = "" if frames == _USUAL_FRAMES else f" of {frames} frames"
    return f"Segment of {len(lines)} steps{long}, {lines[0]['step']} to {lines[-1]['step']}. Acted: {acted}."


def _frames_per_step(lines: Sequence[Line]) -> int:
    """Frames of the game between two lines; four where they do not tell."""
    first, last = lines[0].get("frame"), lines[-1].get("frame")
    if len(lines) < 2 or first is None or last is None:
        return _USUAL_FRAMES
    return max(1, round((int(last) - int(first)) / (len(lines) - 1)))


def _status(moment: _Moment) -> str:
    parts = [
        f"room {moment.room}",
        f"tile {moment.x // 16},{moment.y // 16}",
        f"health {moment.health}/{moment.max_health}",
        *(f"{word} {level}" for word, level in moment.owned.items()),
        f"essences {len(moment.essences)}",
        f"enemies {moment.enemies}",
        f"dungeon {'no' if moment.dungeon is None else moment.dungeon}",
    ]
    return ", ".join(parts)


def _events(moments: Sequence[_Moment]) -> Iterator[Event]:
    seen, reached = {moments[0].room}, set(moments[0].milestones)
    for old, new in pairwise(moments):
        if old.room != new.room:
            fresh = "" if new.room in seen else " new"
            first = "" if new.visited or not fresh else ", first visit"
            seen.add(new.room)
            yield Event(new.step, Weight.ROOM, f"room {old.room} > {new.room}{fresh}{first}")
        else:
            yield from _puzzles(old, new)
        yield from _gains(old, new)
        for key in sorted(new.milestones - reached):
            yield Event(new.step, Weight.GAIN, f"reached {key}")
        reached |= new.milestones
        yield from _dialogs(old, new)
        yield from _health(old, new)


def _gains(old: _Moment, new: _Moment) -> Iterator[Event]:
    for word, level in new.owned.items():
        before = old.owned.get(word, 0)
        if level > before:
            weight = Weight.PURSE if word == "rupees" else Weight.GAIN
            yield Event(new.step, weight, f"{word} {before} > {level}")
    for number in sorted(new.essences - old.essences):
        yield Event(new.step, Weight.GAIN, f"essence {number} taken")
    if new.max_health > old.max_health:
        yield Event(new.step, Weight.GAIN, f"max health {old.max_health} > {new.max_health}")


def _puzzles(old: _Moment, new: _Moment) -> Iterator[Event]:
    pressed, released = new.buttons & ~old.buttons, old.buttons & ~new.buttons
    happened = {
        f"button pressed {pressed:#04x}": pressed,
        f"button released {released:#04x}": released,
        "switch hit": new.switches != old.switches,
        "torch lit": new.torches > old.torches,
        "block pushed": new.block_moving and not old.block_moving,
        "door opened with a key": new.owned["keys"] < old.owned["keys"],
        f"enemies {old.enemies} > {new.enemies}": new.enemies < old.enemies,
        "room cleared": not new.enemies and old.enemies,
    }
    yield from (Event(new.step, Weight.PUZZLE, text) for text, did in happened.items() if did)


def _dialogs(old: _Moment, new: _Moment) -> Iterator[Event]:
    if new.text is not None and old.text is None:
        yield Event(new.step, Weight.DIALOG, f"dialog {new.text} begins")
    if new.text is None and old.text is not None:
        yield Event(new.step, Weight.DIALOG, f"dialog {old.text} ends")


def _health(old: _Moment, new: _Moment) -> Iterator[Event]:
    if new.dead and not old.dead:
        yield Event(new.step, Weight.GAIN, "death")
    elif new.health < old.health:
        yield Event(new.step, Weight.HEALTH, f"damage, health {old.health} > {new.health}")
    elif new.health > old.health:
        yield Event(new.step, Weight.HEALTH, f"healed, health {old.health} > {new.health}")


def _counts(moments: Sequence[_Moment], events: Sequence[Event], late: int) -> str:
    """Totals over the whole segment, events that were left out included; `late`: steps of its end."""
    spots = [moment.spot for moment in moments]
    stood = sum(
        a.place == b.place and b.control and not b.menu and b.text is None for a, b in pairwise(moments)
    )
    dialogs = [event.text.split()[1] for event in events if event.text.endswith(" begins")]
    rooms = [event.text for event in events if event.weight is Weight.ROOM]
    counts = {
        "rooms": len({spot[0] for spot in spots}),
        "room changes": len(rooms),
        "new rooms": sum(" new" in text for text in rooms),
        "first visits": sum(text.endswith("first visit") for text in rooms),
        "tiles": len(set(spots)),
        "late tiles": len(set(spots[-late:])),
        "tile moves": sum(a != b for a, b in pairwise(spots)),
        "turned back": sum(a == c != b for a, b, c in zip(spots, spots[1:], spots[2:], strict=False)),
        "stood": stood,
        "pushed": sum(moment.pushing for moment in moments),
        "in menu": sum(moment.menu for moment in moments),
        "dialogs": len(dialogs),
        "different dialogs": len(set(dialogs)),
        "in dialog": sum(moment.text is not None for moment in moments),
        "damage": sum(event.text.startswith("damage") for event in events),
        "deaths": sum(event.text == "death" for event in events),
        "in dungeon": sum(moment.dungeon is not None for moment in moments),
    }
    return ", ".join(f"{name} {count}" for name, count in counts.items())
