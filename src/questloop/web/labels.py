"""The labelling page, on which a person scores judged segments; writing needs the token."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import SecretStr

from questloop.judges.labels import choose, compare, read_labels, write_labels
from questloop.judges.request import prepare
from questloop.report.book import RunBook
from questloop.storage.keys import SegmentId, Stage
from questloop.web.security import check_token
from questloop.web.site import Name, Site

KEYS = 10
"""The keys 0 to 9 stand for scores from 0 to 1."""


@dataclass(frozen=True)
class Labelling:
    """Which segments are labelled: `count` of an epoch, spread evenly over the judges' scores."""

    epoch: int | None = None  # None: the newest judged epoch
    count: int = 30
    seed: int = 0

    def newest(self, book: RunBook) -> int | None:
        """The epoch to label; None where it is not judged."""
        judged = [epoch for epoch in book.epochs(Stage.EVALUATE) if epoch in book.exported()]
        wanted = judged if self.epoch is None else [epoch for epoch in judged if epoch == self.epoch]
        return wanted[-1] if wanted else None

    def segments(self, book: RunBook, epoch: int) -> list[str]:
        """Ids of the segments to label, in an order that tells nothing."""
        return choose(list(book.scores(epoch).values()), self.count, self.seed)


def label_pages(site: Site, token: SecretStr | None, labelling: Labelling) -> APIRouter:
    """The routes of the page; without a token it says how to get one and takes nothing."""
    pages, book = APIRouter(), site.book
    secret = token.get_secret_value() if token is not None else None
    writing = threading.Lock()

    @pages.get("/label", response_class=HTMLResponse)
    def label(number: Annotated[int, Query(ge=0, le=10**6)] = 0) -> HTMLResponse:
        epoch = labelling.newest(book)
        ids = labelling.segments(book, epoch) if epoch is not None else []
        if epoch is None or not ids:
            return site.draw("label.html", segment=None)
        number = min(number, len(ids) - 1)
        labels = read_labels(book.store, epoch)
        done = sum(name in labels for name in ids)
        score = labels.get(ids[number])
        return site.draw(
            "label.html",
            segment=ids[number],
            epoch=epoch,
            number=number,
            count=len(ids),
            done=done,
            keys=KEYS,
            key=None if score is None else round(score * (KEYS - 1)),
            summary=prepare(book.reader.load(ids[number])).text,
            writes=secret is not None,
            agreement=compare(book.scores(epoch).values(), labels) if done == len(ids) else None,
        )

    @pages.post("/label/{segment_id}")
    def answer(
        request: Request, segment_id: Name, key: Annotated[int, Body(embed=True, ge=0, lt=KEYS)]
    ) -> JSONResponse:
        """Score a segment that is to be labelled: `key` 0 to 9 stands for 0 to 1."""
        check_token(request, secret)
        epoch = book.manifest(str(SegmentId.parse(segment_id))).epoch
        if segment_id not in labelling.segments(book, epoch):
            raise HTTPException(404, "this segment is not among those to label")
        with writing:
            labels = read_labels(book.store, epoch) | {segment_id: round(key / (KEYS - 1), 4)}
            write_labels(book.store, epoch, labels)
        return JSONResponse({"labelled": len(labels)})

    return pages
