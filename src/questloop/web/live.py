"""The run's progress as JSON and as server-sent events, which keep open pages up to date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, StreamingResponse

from questloop.errors import QuestloopError
from questloop.report.book import RunBook

EVERY_S = 2.0
"""Seconds between two looks at the run."""
_LARGE = ("curve", "room_visits")


def live(book: RunBook) -> APIRouter:
    """The routes `/progress` and `/events`."""
    routes = APIRouter()

    @routes.get("/progress")
    def progress() -> JSONResponse:
        """`progress.json` and the state of the run, as `/events` sends them."""
        return JSONResponse(_news(book))

    @routes.get("/events")
    def events(request: Request) -> StreamingResponse:
        """Server-sent events: the run's progress whenever it changes."""
        return StreamingResponse(_stream(book, request), media_type="text/event-stream")

    return routes


def _news(book: RunBook) -> dict[str, Any]:
    """Without the curve and visits of the running epoch: pages ask for them where they show them."""
    progress = book.progress()
    if progress is not None and isinstance(progress.get("training"), dict):
        kept = {key: value for key, value in progress["training"].items() if key not in _LARGE}
        progress = {**progress, "training": kept}
    return {"progress": progress, "state": book.state()}


async def _stream(book: RunBook, request: Request) -> AsyncIterator[str]:
    sent = ""
    while not (request.app.state.stopping or await request.is_disconnected()):
        try:
            news = json.dumps(await asyncio.to_thread(_news, book))
        except QuestloopError:
            news = sent  # a store that is away for a while is asked again
        # A comment keeps proxies from closing a stream on which nothing happens.
        yield f"data: {news}\n\n" if news != sent else ": nothing new\n\n"
        sent = news
        await asyncio.sleep(EVERY_S)
