"""The dashboard's pages about the run as a whole: overview, archive, planner and judges."""

from __future__ import annotations

from functools import reduce
from operator import or_

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from questloop.report import page_data, table, words
from questloop.report.charts import calibration, learning_curves, model_charts
from questloop.storage.keys import Stage
from questloop.web.site import Site


def run_pages(site: Site) -> APIRouter:
    """The routes of the overview and the archive."""
    pages, book, draw = APIRouter(default_response_class=HTMLResponse), site.book, site.draw

    @pages.get("/")
    def overview() -> HTMLResponse:
        played = book.played()
        judged = [epoch for epoch in book.epochs(Stage.EVALUATE) if epoch in book.exported()]
        recent = {epoch: played[epoch] for epoch in list(played)[-8:]}
        ranked = sorted(book.weighted(judged[-1]).items(), key=lambda item: item[::-1]) if judged else []
        return draw(
            "overview.html",
            figures=table.FIGURES.values(),
            rows=[table.cells(row) for row in book.rows()],
            charts=learning_curves(book.so_far()),
            epochs=list(recent),
            milestones=[row for row in page_data.milestones(recent) if any(row[1])],
            missed=[name for name, counts in page_data.milestones(recent) if not any(counts)],
            best=site.segments.cards([name for name, _ in ranked[::-1][: min(3, -(-len(ranked) // 2))]]),
            worst=site.segments.cards([name for name, _ in ranked[:3]]) if len(ranked) > 5 else [],
        )

    @pages.get("/archive")
    def archive() -> HTMLResponse:
        epoch, cells = site.archive.newest()
        site.rooms.search()
        found = site.archive.rooms(cells)
        reached = reduce(or_, (room.milestones for room in found), 0)
        return draw(
            "archive.html",
            epoch=epoch,
            rooms=found,
            furthest=site.archive.title(reached),
            titles={room.milestones: site.archive.title(room.milestones) for room in found},
            pictured={room.room for room in found if site.rooms.picture(room.room) is not None},
        )

    return pages


def feedback_pages(site: Site) -> APIRouter:
    """The routes of the pages about planner, judges and reward models."""
    pages, book, draw = APIRouter(default_response_class=HTMLResponse), site.book, site.draw

    @pages.get("/planner")
    def planner() -> HTMLResponse:
        played = book.played()
        recent = {epoch: played[epoch] for epoch in list(played)[-12:]}
        epoch, kinds = site.segments.takeovers()
        return draw(
            "planner.html",
            epochs=list(recent),
            rows=page_data.planner(recent),
            aims=page_data.aims(recent, site.rooms.guide) if site.rooms.guide else [],
            guide=site.rooms.guide.text if site.rooms.guide else "",
            epoch=epoch,
            kinds=kinds,
            cards=site.segments.planned(),
        )

    @pages.get("/judges")
    def judges() -> HTMLResponse:
        learned = book.epochs(Stage.REWARD_MODEL)
        judged = [(epoch, book.info(epoch, Stage.EVALUATE)) for epoch in book.epochs(Stage.EVALUATE)[-12:]]
        newest = book.info(learned[-1], Stage.REWARD_MODEL) if learned else {}
        return draw(
            "judges.html",
            charts=model_charts(book),
            epoch=learned[-1] if learned else None,
            figures=page_data.reward_model(newest, site.names.milestone) if newest else [],
            calibration=calibration(newest) if newest else None,
            judged=judged,
            judges=[(epoch, page_data.judges(info)) for epoch, info in reversed(judged)],
            words=words,
        )

    return pages
