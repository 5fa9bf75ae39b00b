"""The dashboard's pages. Every request reads; the labelling view, which writes, asks for a token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import reduce
from operator import or_
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from questloop.errors import BadDataError, QuestloopError
from questloop.judges.request import prepare
from questloop.report import pictures, table, views
from questloop.report.book import RunBook
from questloop.report.charts import calibration, learning_curves, model_charts
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.store import NotFound, Store
from questloop.web.archive import ArchiveBook
from questloop.web.labels import add_labels
from questloop.web.ranges import ranged
from questloop.web.rooms import RoomBook
from questloop.web.security import SecureHeaders
from questloop.web.segments import Order, SegmentPages, frame_facts

PAGE = 60
EVERY_S = 2.0
"""how often a browser hears of the run, seconds"""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "testserver")
_FOREVER = {"Cache-Control": "private, max-age=604800, immutable"}

Number = Annotated[int, Path(ge=0, le=10**9)]
EpochChoice = Annotated[str, Query(pattern=r"^[0-9]{0,9}$", description="empty: all")]
SegmentName = Annotated[str, Path(max_length=120)]


def build_app(
    store: Store, settings: Settings, fleet: Any = None, hosts: tuple[str, ...] = LOOPBACK
) -> FastAPI:
    """The application over a store; `fleet` is the fleet's `Database`, None: no fleet.

    `hosts` are the host names that browsers may use, so that no foreign page reaches a dashboard on loopback.
    """
    app = FastAPI(title="Questloop dashboard", docs_url=None, redoc_url=None)
    app.state.stopping = False  # set by the server
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(SecureHeaders)
    app.mount("/static", StaticFiles(packages=[("questloop.web", "static")]), name="static")
    book = RunBook(store)
    rooms = RoomBook(book, settings.game)
    archive = ArchiveBook(book, settings.game)
    pages = SegmentPages(book)
    draw = Drawing(book, has_fleet=fleet is not None)

    @app.exception_handler(NotFound)
    async def missing(request: Request, error: NotFound) -> HTMLResponse:
        return draw("error.html", 404, message="There is no such thing in this run.")

    @app.exception_handler(QuestloopError)
    async def failed(request: Request, error: QuestloopError) -> HTMLResponse:
        code = 404 if isinstance(error, BadDataError) else 503
        return draw("error.html", code, message=str(error))

    @app.exception_handler(RequestValidationError)
    async def senseless(request: Request, error: RequestValidationError) -> HTMLResponse:
        first = error.errors()[0]
        return draw("error.html", 422, message=f"{first['loc'][-1]}: {first['msg']}")

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> HTMLResponse:
        return draw("error.html", error.status_code, message=str(error.detail))

    @app.get("/", response_class=HTMLResponse)
    def overview() -> HTMLResponse:
        played = book.played()
        judged = [epoch for epoch in book.epochs(Stage.EVALUATE) if epoch in book.exported()]
        recent = {epoch: played[epoch] for epoch in list(played)[-8:]}
        ranked = sorted(book.weighted(judged[-1]).items(), key=lambda item: item[::-1]) if judged else []
        return draw(
            "overview.html",
            columns=list(table.COLUMNS.values()),
            rows=[table.cells(row) for row in book.rows()],
            legend=table.LEGEND,
            charts=learning_curves(book.so_far()),
            epochs=list(recent),
            milestones=[row for row in views.milestones(recent) if any(row[1])],
            missed=[name for name, counts in views.milestones(recent) if not any(counts)],
            best=pages.cards([name for name, _ in ranked[:-4:-1]]),
            worst=pages.cards([name for name, _ in ranked[:3]]) if len(ranked) > 5 else [],
        )

    @app.get("/map", response_class=HTMLResponse)
    def the_map() -> HTMLResponse:
        return draw("map.html", maps=rooms.maps())

    @app.get("/rooms/{group}/{room}.png")
    def room(group: Annotated[int, Path(ge=0, le=7)], room: Annotated[int, Path(ge=0, le=255)]) -> Response:
        found = rooms.picture((group, room))
        if found is None:
            raise HTTPException(404, "No exported frame shows this room.")
        return Response(found, media_type="image/png", headers=_FOREVER)

    @app.get("/segments", response_class=HTMLResponse)
    def segments(
        epoch: EpochChoice = "",
        order: Order = Order.NEWEST,
        page: Annotated[int, Query(ge=1, le=10**6)] = 1,
    ) -> HTMLResponse:
        number = int(epoch) if epoch else None
        ids = pages.ordered(number, order)
        last = max(1, -(-len(ids) // PAGE))
        page = min(page, last)
        shown = pages.cards(ids[PAGE * (page - 1) : PAGE * page])
        return draw(
            "segments.html",
            cards=shown,
            count=len(ids),
            page_number=page,
            last=last,
            epoch=number,
            order=order,
            orders=list(Order),
            epochs=list(reversed(book.exported())),
        )

    @app.get("/segments/{segment_id}", response_class=HTMLResponse)
    def segment(segment_id: SegmentName) -> HTMLResponse:
        manifest = book.manifest(_segment(segment_id))
        view = book.reader.load(segment_id)
        return draw(
            "segment.html",
            manifest=manifest,
            line=book.scores(manifest.epoch).get(segment_id),
            followed=book.outcomes(manifest.epoch).get(segment_id),
            frames=frame_facts(view),
            summary=prepare(view).text,
            siblings=pages.of_episode(manifest.episode_id),
        )

    @app.get("/segments/{segment_id}/strip.png")
    def strip(segment_id: SegmentName, most: Annotated[int, Query(ge=1, le=12)] = 4) -> Response:
        found = pictures.filmstrip(pages.spread(_segment(segment_id), most), most)
        if found is None:
            raise HTTPException(404, "This segment has no pictures.")
        return Response(found, media_type="image/png", headers=_FOREVER)

    @app.get("/segments/{segment_id}/frames/{step}.png")
    def frame(segment_id: SegmentName, step: Number) -> Response:
        found = book.reader.load(_segment(segment_id)).png(step)
        if found is None:
            raise HTTPException(404, "No picture was stored of this step.")
        return Response(found, media_type="image/png", headers=_FOREVER)

    @app.get("/films/{epoch}/{name}.mp4")
    def film(epoch: Number, name: SegmentName, request: Request) -> Response:
        if name not in book.films().get(epoch, ()):
            raise HTTPException(404, "There is no such film.")
        return ranged(request, book.store.get(keys.film(epoch, name)), "video/mp4")

    @app.get("/episodes", response_class=HTMLResponse)
    def episodes(epoch: Annotated[int | None, Query(ge=0, le=10**9)] = None) -> HTMLResponse:
        exported = book.exported()
        chosen = epoch if epoch in exported else (exported[-1] if exported else None)
        records = book.episodes(chosen) if chosen is not None else ()
        return draw(
            "episodes.html",
            epoch=chosen,
            epochs=list(reversed(exported)),
            records=records,
            films=book.films().get(chosen, []) if chosen is not None else [],
        )

    @app.get("/episodes/{episode_id}", response_class=HTMLResponse)
    def episode(episode_id: SegmentName) -> HTMLResponse:
        record = book.episode(str(EpisodeId.parse(episode_id)))
        return draw("episode.html", record=record, cards=pages.cards(pages.of_episode(record.id)))

    @app.get("/archive", response_class=HTMLResponse)
    def the_archive() -> HTMLResponse:
        epoch, cells = archive.newest()
        rooms.search()
        found = archive.rooms(cells)
        reached = reduce(or_, (room.milestones for room in found), 0)
        return draw(
            "archive.html",
            epoch=epoch,
            rooms=found,
            furthest=archive.title(reached),
            titles={room.milestones: archive.title(room.milestones) for room in found},
            pictured={room.room for room in found if rooms.picture(room.room) is not None},
        )

    @app.get("/planner", response_class=HTMLResponse)
    def planner() -> HTMLResponse:
        played = book.played()
        recent = {epoch: played[epoch] for epoch in list(played)[-12:]}
        epoch, kinds = pages.takeovers()
        return draw(
            "planner.html",
            epochs=list(recent),
            rows=views.planner(recent),
            epoch=epoch,
            kinds=kinds,
            cards=pages.planned(),
        )

    @app.get("/judges", response_class=HTMLResponse)
    def judges() -> HTMLResponse:
        learned = book.epochs(Stage.REWARD_MODEL)
        judged = [(epoch, book.info(epoch, Stage.EVALUATE)) for epoch in book.epochs(Stage.EVALUATE)[-12:]]
        newest = book.info(learned[-1], Stage.REWARD_MODEL) if learned else {}
        return draw(
            "judges.html",
            charts=model_charts(book),
            epoch=learned[-1] if learned else None,
            figures=views.reward_model(newest) if newest else [],
            calibration=calibration(newest) if newest else None,
            judged=judged,
        )

    @app.get("/progress")
    def progress() -> JSONResponse:
        """`progress.json` and the state of the run, as `/events` sends them."""
        return JSONResponse(_news(book))

    @app.get("/events")
    def events(request: Request) -> StreamingResponse:
        """Server-sent events: the run's progress whenever it changes."""
        return StreamingResponse(_stream(book, request), media_type="text/event-stream")

    add_labels(app, book, draw, settings.dashboard.dashboard_token, settings.loop.seed)
    if fleet is not None:
        from questloop.web.fleet import add_fleet

        add_fleet(app, fleet, settings.fleet, draw)
    return app


class Drawing:
    """Templates, and what every page shows."""

    def __init__(self, book: RunBook, has_fleet: bool) -> None:
        self._book, self._has_fleet = book, has_fleet
        self._templates = Environment(
            loader=PackageLoader("questloop.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["number"] = views.number
        self._templates.filters["with_interval"] = views.with_interval

    def __call__(self, template: str, code: int = 200, **context: Any) -> HTMLResponse:
        run = self._book.run()
        page = self._templates.get_template(template).render(
            page=template.removesuffix(".html"),
            run=run,
            store=self._book.store.url,
            has_fleet=self._has_fleet,
            progress=self._book.progress(),
            **context,
        )
        return HTMLResponse(page, code)


def _news(book: RunBook) -> dict[str, Any]:
    return {"progress": book.progress(), "state": book.state()}


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


def _segment(text: str) -> str:
    return str(SegmentId.parse(text))
