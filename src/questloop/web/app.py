"""The dashboard as a web application: its groups of pages, error pages, and who may ask."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from questloop.errors import BadDataError, QuestloopError, message_of
from questloop.settings import Settings
from questloop.storage.store import NotFound, Store
from questloop.web.curves import curve_pages
from questloop.web.labels import Labelling, label_pages
from questloop.web.live import live
from questloop.web.map_pages import agent_pages, map_pages
from questloop.web.run_pages import feedback_pages, run_pages
from questloop.web.security import SecureHeaders
from questloop.web.segment_pages import episode_pages, segment_pages
from questloop.web.setup_pages import setup_pages
from questloop.web.site import Site, Templates

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "testserver")


def build_app(
    store: Store,
    settings: Settings,
    fleet: Any = None,
    hosts: tuple[str, ...] = LOOPBACK,
    labelling: Labelling | None = None,
    base: str = "",
) -> FastAPI:
    """The application over a store, which only reads but for the labelling page, which asks for a token.

    Args:
        store: the run's store, which may be empty still.
        settings: those of the game, the dashboard and, with `fleet`, of the fleet.
        fleet: the fleet's `Database`; None: no pages of the fleet.
        hosts: names that browsers may use, so that no foreign page reaches a dashboard on loopback.
        labelling: which segments the labelling page shows; None: 30 of the newest judged epoch.
        base: the path that the application is mounted at; empty: none.
    """
    app = FastAPI(title="Questloop dashboard", docs_url=None, redoc_url=None)
    app.state.stopping = False  # set by the server
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(SecureHeaders)
    app.mount("/static", static_files(), name="static")
    site = Site.of(store, settings, fleet is not None, base)
    token, chosen = settings.dashboard.dashboard_token, labelling or Labelling(seed=settings.loop.seed)
    for pages in (
        run_pages(site),
        map_pages(site),
        agent_pages(site.book),
        curve_pages(site),
        setup_pages(site, token),
        feedback_pages(site),
        segment_pages(site),
        episode_pages(site),
        live(site.book),
        label_pages(site, token, chosen),
    ):
        app.include_router(pages)
    if fleet is not None:
        from questloop.web.fleet import fleet_pages

        app.include_router(fleet_pages(fleet, settings.fleet, site.draw))
    answer_errors(app, site.draw)
    return app


def static_files() -> StaticFiles:
    """Style and scripts of the pages, with what they share with the report."""
    return StaticFiles(packages=[("questloop.web", "static"), ("questloop.report", "static")])


def answer_errors(app: FastAPI, draw: Templates) -> None:
    """Every error as a page in the dashboard's own frame."""

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
        return draw("error.html", 422, message=f"{first['loc'][-1]}: {message_of(first)}")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> HTMLResponse:
        said = "There is no such page." if error.detail == "Not Found" else str(error.detail)
        return draw("error.html", error.status_code, message=said)
