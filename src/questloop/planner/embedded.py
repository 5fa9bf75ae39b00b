"""The embedded planner: rules and search over a model of the room, no language model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from questloop.game.terrain import Riddle
from questloop.planner import hint
from questloop.planner.blocks import Push, dislodge, free, solve
from questloop.planner.paths import find_path
from questloop.planner.plan import HEADINGS, MAX_MACROS
from questloop.planner.room import SIDES, Direction, Place, distance, neighbour
from questloop.planner.view import View

_HEADING = {direction: name for name, direction in HEADINGS.items()}
_MOST_STATES = 4_000  # of a block search: about two seconds where there is no solution
_PAUSE = {"do": "WAIT", "steps": 8}
_FOUGHT_FIRST = (Riddle.ENEMIES, Riddle.BLOCK, Riddle.PUSH, Riddle.TORCHES)


def answer(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a model would write: a plan for a document of `client.request`, a hint for `hint.request`'s."""
    view = View.from_json(document["view"])
    if document.get("mode") == hint.MODE:
        keys = int(document.get("state", {}).get("keys_here", 0))
        return hint_for(view, {HEADINGS[side] for side in document["visited"]}, keys)
    return plan_for(view)


def plan_for(view: View) -> dict[str, Any]:
    """A plan for what holds the hero up: a dialog, else the room's riddle."""
    if view.dialog:
        return _plan("read on; yes to a question", [{"do": "CHOOSE", "option": 0}])
    if chest := _nearest(view, view.chests, view.chest_sides):
        return _plan("open the chest", [_at("TALK", chest)])
    if view.riddle in _FOUGHT_FIRST and view.enemies and view.blade:
        return _plan("clear the room of enemies", [{"do": "ATTACK"}])
    match view.riddle:
        case Riddle.BLOCK:
            return _pushes(view, solve(view.still, view.hero, view.plates, _MOST_STATES))
        case Riddle.PUSH if view.block in view.room.blocks:
            return _pushes(view, dislodge(view.still, view.hero, view.block, _MOST_STATES))
        case Riddle.CHEST if view.chests:
            beside = _beside(view.chests, view.chest_sides)
            return _pushes(view, free(view.still, view.hero, beside, _MOST_STATES))
        case Riddle.BUTTON if view.buttons:
            return _button(view)
        case Riddle.TORCHES if view.torches and view.fire:
            return _torches(view)
    return _plan("nothing to be done", [_PAUSE])


def hint_for(view: View, visited: Collection[Direction], keys: int = 0) -> dict[str, Any]:
    """Where to go: a chest, else a lock if there is a small key for it, else over an edge to a room not
    entered before, else a door, else any edge."""
    if chest := _nearest(view, view.chests, view.chest_sides):
        return _hint("a closed chest", _cell(chest))
    if keys and (lock := _nearest(view, view.locks)):
        return _hint("a lock that the key opens", _cell(lock))
    ways = _ways_out(view)
    fresh = {way: steps for way, steps in ways.items() if way not in visited}
    if fresh:
        return _hint("a room not entered before", _edge(min(fresh, key=lambda way: fresh[way])))
    if door := _nearest(view, view.doors):
        return _hint("what is behind the door", _cell(door))
    if ways:
        return _hint("on to another room", _edge(max(ways, key=lambda way: ways[way])))
    return _hint("no way leads out", None)


def _pushes(view: View, pushes: list[Push] | None) -> dict[str, Any]:
    """The pushes that were found; where there are none, leave and come back, which puts the blocks in their
    places."""
    if pushes:
        macros = [_at("PUSH_BLOCK", push.block) | {"direction": _HEADING[push.direction]} for push in pushes]
        return _plan("push what has to move", [*macros[: MAX_MACROS - 1], _PAUSE])
    if pushes is not None:
        return _plan("nothing is left to be pushed", [_PAUSE])
    ways = _ways_out(view)
    if not ways:
        return _plan("no way to solve it and no way out", [_PAUSE])
    way = min(ways, key=lambda each: ways[each])
    exits = [{"do": "EXIT", "direction": _HEADING[each]} for each in (way, way.opposite)]
    return _plan("no push solves it: enter the room anew", exits)


def _button(view: View) -> dict[str, Any]:
    near = [place for place in view.buttons if find_path(view.still, view.hero, [place]) is not None]
    if not near and view.room.blocks:
        return _pushes(view, free(view.still, view.hero, view.buttons, _MOST_STATES))
    return _plan("step on the button", [_at("MOVE_TO", min(near or view.buttons)), _PAUSE])


def _torches(view: View) -> dict[str, Any]:
    macros: list[dict[str, Any]] = []
    hero = view.hero
    for torch in sorted(view.torches, key=lambda place: distance(place, view.hero)):
        stands = {neighbour(torch, way.opposite): way for way in Direction}
        reached = [stand for stand in stands if find_path(view.still, hero, [stand]) is not None]
        if not reached:
            continue
        hero = min(reached, key=lambda stand: len(find_path(view.still, hero, [stand]) or ()))
        macros.append(_at("MOVE_TO", hero))
        macros.append({"do": "USE_ITEM", "button": view.fire, "direction": _HEADING[stands[hero]]})
    return _plan("light the torches", [*macros[: MAX_MACROS - 1], _PAUSE])


def _ways_out(view: View) -> dict[Direction, int]:
    """Steps to each edge that can be left over."""
    ways = {way: find_path(view.still, view.hero, view.exits(way)) for way in Direction}
    return {way: len(path) for way, path in ways.items() if path is not None}


def _nearest(view: View, places: Iterable[Place], sides: Collection[Direction] = SIDES) -> Place | None:
    """The nearest of closed `places` that can be walked up to from one of its sides."""
    walks = {}
    for place in places:
        path = find_path(view.still, view.hero, _beside([place], sides))
        if path is not None:
            walks[place] = len(path)
    return min(walks, key=lambda place: (walks[place], place)) if walks else None


def _beside(places: Iterable[Place], sides: Collection[Direction]) -> list[Place]:
    return [neighbour(place, side) for place in places for side in sides]


def _at(do: str, place: Place) -> dict[str, Any]:
    return {"do": do, "row": place[0], "column": place[1]}


def _cell(place: Place) -> dict[str, Any]:
    return {"to": "cell", "row": place[0], "column": place[1]}


def _edge(way: Direction) -> dict[str, Any]:
    return {"to": "exit", "direction": _HEADING[way]}


def _hint(reason: str, target: dict[str, Any] | None) -> dict[str, Any]:
    return {"reason": reason, "target": target}


def _plan(reason: str, macros: list[dict[str, Any]]) -> dict[str, Any]:
    return {"reason": reason, "macros": macros}
