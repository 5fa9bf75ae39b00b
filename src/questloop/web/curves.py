"""The dashboard's training curves: a page that draws them, their points as JSON, and all of them as CSV."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from questloop.report.book import RunBook
from questloop.report.curves import CURVES, Curve, as_csv, boundaries, series
from questloop.web.site import Site

FURTHEST = 10**15
Step = Annotated[float, Query(ge=0, le=FURTHEST, allow_inf_nan=False)]


def curve_pages(site: Site) -> APIRouter:
    """The routes of a run's curves."""
    pages, book = APIRouter(), site.book

    @pages.get("/curves", response_class=HTMLResponse)
    def curves() -> HTMLResponse:
        found = series(book.so_far())
        return site.draw(
            "curves.html",
            groups=grouped(found),
            missing=[curve.title for curve in CURVES if curve.key not in found],
            by_epoch=[
                curve.title for curve in CURVES if curve.key in found and found[curve.key].each == "epoch"
            ],
        )

    @pages.get("/curves.json")
    def points(low: Step = 0, high: Step = FURTHEST) -> JSONResponse:
        """The curves between two steps of the run, at most 600 points each."""
        return JSONResponse({"runs": [run_points("", book, low, high)]})

    @pages.get("/curves.csv")
    def every() -> StreamingResponse:
        """All points of all curves, a line an update."""
        run = book.run()
        name = f"{run.run if run else 'run'}-curves.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(as_csv(book.so_far()), media_type="text/csv", headers=headers)

    return pages


def grouped(keys: Container[str]) -> dict[str, list[Curve]]:
    """The curves of these keys by their groups, in the order of `CURVES`."""
    groups: dict[str, list[Curve]] = {}
    for curve in CURVES:
        if curve.key in keys:
            groups.setdefault(curve.group, []).append(curve)
    return groups


def run_points(name: str, book: RunBook, low: float, high: float) -> dict[str, Any]:
    """A run's curves as the page reads them."""
    played = book.so_far()
    inside = {key: each.within(low, high) for key, each in series(played).items()}
    return {
        "name": name,
        "curves": {key: {"x": each.x, "y": each.y} for key, each in inside.items()},
        "epochs": [step for step in boundaries(played) if low <= step <= high],
    }
