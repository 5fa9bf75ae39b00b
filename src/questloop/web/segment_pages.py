"""The dashboard's pages about what was recorded: segments with their pictures, episodes and films."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from questloop.judges.request import prepare
from questloop.report import images
from questloop.storage import keys
from questloop.storage.keys import EpisodeId, SegmentId
from questloop.web.ranges import ranged
from questloop.web.score_steps import ScoreSteps, said, vote_groups
from questloop.web.segments import Order, frame_facts
from questloop.web.site import EpochNumber, Name, Site, png

PAGE = 60
"""Segments per page of the list."""

EpochChoice = Annotated[str, Query(pattern=r"^[0-9]{0,9}$", description="empty: all")]


def segment_pages(site: Site) -> APIRouter:
    """The routes of segments."""
    pages, book, draw = APIRouter(default_response_class=HTMLResponse), site.book, site.draw

    @pages.get("/segments")
    def segments(
        epoch: EpochChoice = "",
        order: Order = Order.NEWEST,
        page: Annotated[int, Query(ge=1, le=10**6)] = 1,
    ) -> HTMLResponse:
        number = int(epoch) if epoch else None
        ids = site.segments.ordered(number, order)
        last = max(1, -(-len(ids) // PAGE))
        page = min(page, last)
        return draw(
            "segments.html",
            cards=site.segments.cards(ids[PAGE * (page - 1) : PAGE * page]),
            count=len(ids),
            page_number=page,
            last=last,
            epoch=number,
            order=order,
            orders=list(Order),
            epochs=list(reversed(book.exported())),
        )

    @pages.get("/segments/{segment_id}")
    def segment(segment_id: Name) -> HTMLResponse:
        manifest = book.manifest(_segment(segment_id))
        view = book.reader.load(segment_id)
        line = book.scores(manifest.epoch).get(segment_id)
        return draw(
            "segment.html",
            manifest=manifest,
            steps=None if line is None else ScoreSteps.of(line),
            line=line,
            vote_groups=vote_groups,
            said=said,
            followed=book.outcomes(manifest.epoch).get(segment_id),
            frames=frame_facts(view, site.names.place),
            summary=prepare(view).text,
            siblings=site.segments.of_episode(manifest.episode_id),
        )

    @pages.get("/segments/{segment_id}/strip.png")
    def strip(segment_id: Name, most: Annotated[int, Query(ge=1, le=12)] = 4) -> Response:
        found = images.filmstrip(site.segments.spread(_segment(segment_id), most), most)
        if found is None:
            raise HTTPException(404, "This segment has no pictures.")
        return png(found)

    @pages.get("/segments/{segment_id}/frames/{step}.png")
    def frame(segment_id: Name, step: EpochNumber) -> Response:
        found = book.reader.load(_segment(segment_id)).png(step)
        if found is None:
            raise HTTPException(404, "No picture was stored of this step.")
        return png(found)

    return pages


def episode_pages(site: Site) -> APIRouter:
    """The routes of episodes and films."""
    pages, book, draw = APIRouter(default_response_class=HTMLResponse), site.book, site.draw

    @pages.get("/films/{epoch}/{name}.mp4")
    def film(epoch: EpochNumber, name: Name, request: Request) -> Response:
        if name not in book.films().get(epoch, ()):
            raise HTTPException(404, "There is no such film.")
        return ranged(request, book.store.get(keys.film(epoch, name)), "video/mp4")

    @pages.get("/episodes")
    def episodes(epoch: Annotated[int | None, Query(ge=0, le=10**9)] = None) -> HTMLResponse:
        exported = book.exported()
        chosen = epoch if epoch in exported else (exported[-1] if exported else None)
        return draw(
            "episodes.html",
            epoch=chosen,
            epochs=list(reversed(exported)),
            records=book.episodes(chosen) if chosen is not None else (),
            films=book.films().get(chosen, []) if chosen is not None else [],
        )

    @pages.get("/episodes/{episode_id}")
    def episode(episode_id: Name) -> HTMLResponse:
        record = book.episode(str(EpisodeId.parse(episode_id)))
        cards = site.segments.cards(site.segments.of_episode(record.id))
        return draw("episode.html", record=record, cards=cards)

    return pages


def _segment(text: str) -> str:
    return str(SegmentId.parse(text))
