"""Describes a state of the game as the text that judges of states read, without rewards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from questloop.judges.compress import OWNED

VERSION = "state-1"
HEAD = "State of the game."


def describe(state: Mapping[str, Any]) -> str:
    """The text of a state, a value of `state` in `states.jsonl` or `cells.jsonl`.

    What changes from moment to moment and says nothing of the quest, as the purse, is left out.

    >>> print(describe({"room": "0:21", "pos": [40, 52], "sword": 1, "milestones": ["sword_1"]}))
    State of the game.
    Reached: sword_1
    Place: room 0:21, tile 2,3, dungeon no
    Owns: keys 0, boss keys 0, sword 1, shield 0, essences 0
    Room: enemies 0, buttons 0, torches 0
    """
    read = state.get
    x, y = read("pos", (0, 0))
    dungeon = read("dungeon")
    owns = [f"{word} {read(key, 0)}" for key, word in OWNED.items()]
    owns += [f"essences {len(read('essences', ()))}"]
    owns += [f"item {name} {level}" for name, level in sorted(read("items", {}).items())]
    room = [f"enemies {read('enemies_left', 0)}", f"buttons {read('buttons', 0)}"]
    room += [f"torches {read('torches', 0)}"]
    return "\n".join(
        [
            HEAD,
            _reached(read("milestones", ())),
            f"Place: room {read('room', '')}, tile {x // 16},{y // 16}, "
            f"dungeon {'no' if dungeon is None else dungeon}",
            f"Owns: {', '.join(owns)}",
            f"Room: {', '.join(room)}",
        ]
    )


def describe_place(room: str, reached: Iterable[str]) -> str:
    """The text of a state of which only the room and the milestones are known; the hero stands in its middle.

    >>> print(describe_place("4:21", ["sword_1"]))
    State of the game.
    Reached: sword_1
    Place: room 4:21, tile 4,4
    """
    return "\n".join([HEAD, _reached(reached), f"Place: room {room}, tile 4,4"])


def _reached(milestones: Iterable[str]) -> str:
    return f"Reached: {', '.join(sorted(milestones)) or 'nothing'}"
