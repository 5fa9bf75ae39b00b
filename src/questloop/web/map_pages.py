"""The dashboard's map: rooms, tiles that were walked, where recorded and living agents go, their screens."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from questloop.report import page_data
from questloop.report.book import RunBook
from questloop.storage.keys import Stage
from questloop.web.site import Site, png

RECORDED = 12
"""segments whose trails the map plays"""
EVERY_STEPS = 1
"""steps between two places of a recorded trail"""

EpochQuery = Annotated[int | None, Query(ge=0, le=10**9)]


def map_pages(site: Site) -> APIRouter:
    """The routes of the map and of its rooms' pictures."""
    pages, book = APIRouter(), site.book

    @pages.get("/map", response_class=HTMLResponse)
    def the_map() -> HTMLResponse:
        exported = book.exported()
        played, maps = book.played(), site.rooms.maps()
        trodden = [epoch for epoch, info in played.items() if info.get("tiles")]
        return site.draw("map.html", maps=maps, exported=exported[-1:], trodden=trodden, played=bool(played))

    @pages.get("/map/tiles.json")
    def tiles(epoch: EpochQuery = None) -> JSONResponse:
        """Steps on every metatile of every room, `[tile, steps, ...]`; of an epoch, or of all."""
        epochs = book.epochs() if epoch is None else (epoch,)
        return JSONResponse(book.once(("tiles", epochs), partial(tiles_of, book, epochs)))

    @pages.get("/map/trails.json")
    def trails(epoch: EpochQuery = None) -> JSONResponse:
        """Where the agents of an epoch's segments walked: group, room, x and y, a place a step."""
        exported = book.exported()
        chosen = epoch if epoch in exported else (exported[-1] if exported else None)
        found = [] if chosen is None else recorded(book, chosen)
        return JSONResponse({"epoch": chosen, "every": EVERY_STEPS, "agents": found})

    @pages.get("/rooms/{group}/{room}.png")
    def room(group: Annotated[int, Path(ge=0, le=7)], room: Annotated[int, Path(ge=0, le=255)]) -> Response:
        found = site.rooms.picture((group, room))
        if found is None:
            raise HTTPException(404, "No exported frame shows this room.")
        return png(found)

    return pages


def agent_pages(book: RunBook) -> APIRouter:
    """The routes of the agents that train now."""
    pages = APIRouter()

    @pages.get("/agents.json")
    def agents() -> JSONResponse:
        """The agents of the newest look at a training run: their trails, and whether they have a screen."""
        document = book.agents()
        shown = [
            {"agent": each["agent"], "trail": each["trail"], "screen": bool(each.get("screen"))}
            for each in document.get("agents", [])
        ]
        return JSONResponse({"step": document.get("step"), "epoch": document.get("epoch"), "agents": shown})

    @pages.get("/agents/{agent}.png")
    def screen(agent: Annotated[int, Path(ge=0, le=10**6)]) -> Response:
        """What an agent saw at that look."""
        agents: list[dict[str, Any]] = book.agents().get("agents", [])
        found = next((each for each in agents if each["agent"] == agent), {})
        try:
            data = base64.b64decode(found.get("screen") or "", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if not data:
            raise HTTPException(404, "This agent has no screen now.")
        return Response(data, media_type="image/png", headers={"Cache-Control": "no-store"})

    return pages


def tiles_of(book: RunBook, epochs: tuple[int, ...]) -> dict[str, list[tuple[int, int]]]:
    """Metatiles of every room with the steps on them, summed over these epochs; of those that are known."""
    found: dict[str, Counter[int]] = {}
    for epoch in epochs:
        for room, text in (book.info(epoch, Stage.ROLLOUTS).get("tiles") or {}).items():
            flat = [int(number) for number in text.split()]
            found.setdefault(room, Counter()).update(dict(zip(flat[::2], flat[1::2], strict=True)))
    return {room: list(count.items()) for room, count in found.items()}


def recorded(book: RunBook, epoch: int) -> list[dict[str, Any]]:
    """The trails of up to `RECORDED` segments of an epoch, of agents as different as there are."""
    ids = book.segments(epoch)
    if not ids:
        return []
    chosen = np.unique(np.linspace(0, len(ids) - 1, RECORDED).round().astype(int))
    return [book.once(("trail", ids[place]), partial(_trail, book, ids[place])) for place in chosen]


def _trail(book: RunBook, segment_id: str) -> dict[str, Any]:
    states = [line["state"] for line in book.reader.load(segment_id).states[::EVERY_STEPS]]
    trail = [[*page_data.parse_room(state["room"]), *state.get("pos", (0, 0))] for state in states]
    return {"segment": segment_id, "trail": trail}
