"""The embedded planner: rules and search over the room model. No language model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from questloop.game.terrain import Riddle
from questloop.planner.blocks import solve
from questloop.planner.paths import find_path
from questloop.planner.plan import HEADINGS, MAX_MACROS
from questloop.planner.room import Direction, Place, neighbour
from questloop.planner.view import View

_HEADING = {direction: name for name, direction in HEADINGS.items()}
_MOST_STATES = 4_000  # of a block search: about two seconds where there is no solution
_PAUSE = {"do": "WAIT", "steps": 8}


def answer(document: Mapping[str, Any]) -> dict[str, Any]:
    """The plan, as a model would write it, for a request document of `client.request`."""
    return plan_for(View.from_json(document["view"]))


def plan_for(view: View) -> dict[str, Any]:
    """A plan for what holds the hero up: a dialog, else the room's riddle."""
    if view.dialog:
        return _plan("read on; yes to a question", [{"do": "CHOOSE", "option": 0}])
    if chest := _nearest(view, view.chests):
        return _plan("open the chest", [_at("TALK", chest)])
    if view.riddle in (Riddle.ENEMIES, Riddle.BLOCK, Riddle.TORCHES) and view.enemies:
        return _plan("clear the room of enemies", [{"do": "ATTACK"}])
    match view.riddle:
        case Riddle.BLOCK:
            return _blocks(view)
        case Riddle.BUTTON if view.buttons:
            return _plan("step on the button", [_at("MOVE_TO", min(view.buttons)), _PAUSE])
        case Riddle.TORCHES if view.torches:
            return _torches(view)
    return _plan("nothing to be done", [_PAUSE])


def _blocks(view: View) -> dict[str, Any]:
    """The fewest pushes; where none is left, leave and come back, which puts the blocks in their places."""
    pushes = solve(view.still, view.hero, view.plates, _MOST_STATES)
    if pushes:
        macros = [_at("PUSH_BLOCK", push.block) | {"direction": _HEADING[push.direction]} for push in pushes]
        return _plan("push the block onto the plate", [*macros[: MAX_MACROS - 1], _PAUSE])
    if pushes is not None:
        return _plan("the block is in its place", [_PAUSE])
    ways = {way: find_path(view.still, view.hero, view.exits(way)) for way in Direction}
    open_ways = {way: len(path) for way, path in ways.items() if path is not None}
    if not open_ways:
        return _plan("no way to solve it and no way out", [_PAUSE])
    way = min(open_ways, key=lambda each: open_ways[each])
    exits = [{"do": "EXIT", "direction": _HEADING[each]} for each in (way, way.opposite)]
    return _plan("no push solves it: enter the room anew", exits)


def _torches(view: View) -> dict[str, Any]:
    macros: list[dict[str, Any]] = []
    hero = view.hero
    for torch in sorted(view.torches, key=lambda place: _distance(place, view.hero)):
        stands = {neighbour(torch, way.opposite): way for way in Direction}
        reached = [stand for stand in stands if find_path(view.still, hero, [stand]) is not None]
        if not reached:
            continue
        hero = min(reached, key=lambda stand: len(find_path(view.still, hero, [stand]) or ()))
        macros.append(_at("MOVE_TO", hero))
        macros.append({"do": "USE_ITEM", "button": "A", "direction": _HEADING[stands[hero]]})
    return _plan("light the torches", [*macros[: MAX_MACROS - 1], _PAUSE])


def _nearest(view: View, places: Iterable[Place]) -> Place | None:
    """The nearest of closed `places` that can be walked up to."""
    walks = {}
    for place in places:
        path = find_path(view.still, view.hero, [neighbour(place, way) for way in Direction])
        if path is not None:
            walks[place] = len(path)
    return min(walks, key=lambda place: (walks[place], place)) if walks else None


def _at(do: str, place: Place) -> dict[str, Any]:
    return {"do": do, "row": place[0], "column": place[1]}


def _plan(reason: str, macros: list[dict[str, Any]]) -> dict[str, Any]:
    return {"reason": reason, "macros": macros}


def _distance(a: Place, b: Place) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])
