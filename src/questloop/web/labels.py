"""A person's scores of segments: the view that writes, for whoever has the token."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import Body, FastAPI, HTTPException, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import SecretStr

from questloop.judges.labels import choose, compare, read_labels, write_labels
from questloop.judges.request import prepare
from questloop.report.book import RunBook
from questloop.serving.labelling import KEYS
from questloop.storage.keys import SegmentId, Stage
from questloop.web.security import check_token

COUNT = 30
"""segments of an epoch that are labelled, spread evenly over the judges' scores"""


def add_labels(app: FastAPI, book: RunBook, draw: Any, token: SecretStr | None, seed: int) -> None:
    """Add the labelling view; without a token it says how to get one and takes nothing."""
    secret = token.get_secret_value() if token is not None else None
    writing = threading.Lock()

    def chosen(epoch: int) -> list[str]:
        return choose(list(book.scores(epoch).values()), COUNT, seed)

    @app.get("/label", response_class=HTMLResponse)
    def label(number: Annotated[int, Query(ge=0, le=10**6)] = 0) -> HTMLResponse:
        judged = [epoch for epoch in book.epochs(Stage.EVALUATE) if epoch in book.exported()]
        ids = chosen(judged[-1]) if judged else []
        if not ids:
            return draw("label.html", segment=None)  # type: ignore[no-any-return]
        number = min(number, len(ids) - 1)
        labels = read_labels(book.store, judged[-1])
        done = sum(name in labels for name in ids)
        score = labels.get(ids[number])
        return draw(  # type: ignore[no-any-return]
            "label.html",
            segment=ids[number],
            epoch=judged[-1],
            number=number,
            count=len(ids),
            done=done,
            keys=KEYS,
            key=None if score is None else round(score * (KEYS - 1)),
            summary=prepare(book.reader.load(ids[number])).text,
            writes=secret is not None,
            agreement=compare(book.scores(judged[-1]).values(), labels) if done == len(ids) else None,
        )

    @app.post("/label/{segment_id}")
    def answer(
        request: Request,
        segment_id: Annotated[str, Path(max_length=120)],
        key: Annotated[int, Body(embed=True, ge=0, lt=KEYS)],
    ) -> JSONResponse:
        """Score a segment that is to be labelled: `key` 0 to 9 stands for 0 to 1."""
        check_token(request, secret)
        epoch = book.manifest(str(SegmentId.parse(segment_id))).epoch
        if segment_id not in chosen(epoch):
            raise HTTPException(404, "this segment is not among those to label")
        with writing:
            labels = read_labels(book.store, epoch) | {segment_id: round(key / (KEYS - 1), 4)}
            write_labels(book.store, epoch, labels)
        return JSONResponse({"labelled": len(labels)})
