"""Several runs on one dashboard: a list of them, each with its own pages, and their curves side by side."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import get_route_path
from starlette.types import ASGIApp, Receive, Scope, Send

from questloop.errors import QuestloopError
from questloop.report.book import RunBook
from questloop.report.curves import series
from questloop.settings import Settings
from questloop.storage.keys import MODELS
from questloop.storage.store import Store, open_existing_store
from questloop.web.app import LOOPBACK, answer_errors, build_app, static_files
from questloop.web.curves import FURTHEST, Step, grouped, run_points
from questloop.web.names import Names
from questloop.web.security import SecureHeaders
from questloop.web.site import Templates

MOST_COMPARED = 6
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

RunNames = Annotated[list[str], Query(max_length=MOST_COMPARED)]


def build_dashboard(
    store: Store, settings: Settings, fleet: Any = None, hosts: tuple[str, ...] = LOOPBACK
) -> FastAPI:
    """The application of the run in `store`, or of the runs in the folders of `store` where it holds none.

    Arguments as of `build_app`.
    """
    if MODELS in store.folders() or not runs_in(store):
        return build_app(store, settings, fleet, hosts)
    return build_hub(store, settings, fleet, hosts)


def runs_in(store: Store) -> list[str]:
    """Names of the folders of `store` that hold a run, in order."""
    return [name for name in store.folders() if _NAME.fullmatch(name) and MODELS in store.folders(name)]


@dataclass(frozen=True)
class RunLine:
    """A run in the list."""

    name: str
    book: RunBook

    @property
    def facts(self) -> dict[str, Any]:
        """What the list says of it; a `problem` and nothing else where its store cannot be read."""
        try:
            return self._facts() | {"problem": ""}
        except QuestloopError as error:
            return {"problem": str(error)}

    def _facts(self) -> dict[str, Any]:
        run, rows, progress = self.book.run(), self.book.rows(), self.book.progress() or {}
        last = rows[-1] if rows else None
        reached = series(self.book.played()).get("milestones") if rows else None
        return {
            "game": run.game if run else None,
            "seed": run.seed if run else None,
            "epochs": len(rows),
            "steps": sum(row.steps for row in rows),
            "reward": last.return_per_1000_steps if last else None,
            "milestones": int(max(reached.y)) if reached else 0,
            "rate": last.steps_per_second if last else None,
            "stage": progress.get("stage"),
            "stopped": progress.get("stopped", False),
            "updated": progress.get("updated"),
        }


class Runs:
    """The runs in the folders of a store, each opened when it is first asked for; an ASGI application."""

    def __init__(self, store: Store, settings: Settings, fleet: Any, hosts: tuple[str, ...]) -> None:
        self._store, self._settings, self._fleet, self._hosts = store, settings, fleet, hosts
        self._lock = threading.Lock()
        self._books: dict[str, RunBook] = {}
        self._apps: dict[str, FastAPI] = {}
        self.state: Any = None
        """the list's own, which the runs' applications share"""

    def names(self) -> list[str]:
        """Of the runs, in order; looks at the store."""
        return runs_in(self._store)

    def book(self, name: str) -> RunBook:
        """The run of a folder; 404 for a name that is none."""
        with self._lock:
            if name not in self._books:
                if name not in self.names():
                    raise HTTPException(404, "There is no such run here.")
                url = f"{self._store.url.rstrip('/')}/{name}"
                where = self._settings.store.model_copy(update={"store_url": url})
                self._books[name] = RunBook(open_existing_store(where))
            return self._books[name]

    def lines(self, names: Iterable[str] | None = None) -> list[RunLine]:
        """The runs of these names, or all."""
        return [RunLine(name, self.book(name)) for name in (self.names() if names is None else names)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = get_route_path(scope).lstrip("/").partition("/")[0]
        app: ASGIApp = self._app(name)
        await app({**scope, "root_path": f"{scope.get('root_path', '')}/{name}"}, receive, send)

    def _app(self, name: str) -> FastAPI:
        if name not in self._apps:
            store = self.book(name).store
            app = build_app(store, self._settings, self._fleet, self._hosts, base=f"/runs/{name}")
            app.state = self.state
            self._apps[name] = app
        return self._apps[name]


def build_hub(store: Store, settings: Settings, fleet: Any, hosts: tuple[str, ...]) -> FastAPI:
    """The list of the runs in the folders of `store`, their pages under `/runs/NAME`, their comparison."""
    app = FastAPI(title="Questloop dashboard", docs_url=None, redoc_url=None)
    app.state.stopping = False
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(SecureHeaders)
    app.mount("/static", static_files(), name="static")
    runs = Runs(store, settings, fleet, hosts)
    runs.state = app.state
    draw = Templates(RunBook(store), False, Names(settings.game), lists_runs=True)

    @app.get("/", response_class=HTMLResponse)
    def every() -> HTMLResponse:
        return draw("runs.html", runs=runs.lines())

    @app.get("/compare", response_class=HTMLResponse)
    def compare(run: RunNames = []) -> HTMLResponse:  # noqa: B006
        chosen = runs.lines(run)
        found = {key for line in chosen for key in series(line.book.so_far())}
        return draw(
            "compare.html",
            names=runs.names(),
            chosen=run,
            most=MOST_COMPARED,
            groups=grouped(found),
            differing=differing(chosen),
            unknown=[line.name for line in chosen if not line.book.sessions()],
        )

    @app.get("/compare.json")
    def points(run: RunNames = [], low: Step = 0, high: Step = FURTHEST) -> JSONResponse:  # noqa: B006
        """The curves of several runs between two steps, at most 600 points each."""
        return JSONResponse(
            {"runs": [run_points(line.name, line.book, low, high) for line in runs.lines(run)]}
        )

    app.mount("/runs", runs, name="runs")
    answer_errors(app, draw)
    return app


def differing(runs: Iterable[RunLine]) -> list[tuple[str, list[str | None]]]:
    """Settings whose newest values are not the same in all runs, and those values; None: not known."""
    known = []
    for line in runs:
        sessions = line.book.sessions()
        known.append({each.name: each.value or "unset" for each in sessions[-1].settings} if sessions else {})
    names = sorted({name for each in known for name in each} - {"STORE_URL"})
    rows = [(name, [each.get(name) for each in known]) for name in names]
    return [(name, values) for name, values in rows if len({value for value in values if value}) > 1]
