"""A page on which a person scores segments, by keyboard and pictures."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Body, FastAPI, HTTPException
from fastapi.responses import HTMLResponse

from questloop.judges.pictures import sheet
from questloop.judges.request import Case

KEYS = 10
"""keys 0 to 9 stand for scores from 0 to 1"""


@dataclass
class Labelling:
    """What is labelled and what was said so far; `save` is called after every answer."""

    segment_ids: Sequence[str]
    case_of: Callable[[str], Case]
    save: Callable[[Mapping[str, float]], None]
    labels: dict[str, float] = field(default_factory=dict)

    def answer(self, number: int, key: int) -> None:
        self.labels[self.segment_ids[number]] = round(key / (KEYS - 1), 4)
        self.save(self.labels)

    @property
    def done(self) -> int:
        return sum(segment in self.labels for segment in self.segment_ids)


def build_labelling_app(work: Labelling) -> FastAPI:
    """`/` is the page, `/segments/{number}` what it shows and takes."""
    app = FastAPI(title="Label segments", docs_url=None, redoc_url=None, openapi_url=None)
    page = files("questloop.serving").joinpath("label.html").read_text("utf-8")

    @app.get("/")
    def index() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/segments/{number}")
    def show(number: int) -> dict[str, Any]:
        case = work.case_of(_id(work, number))
        picture = sheet(case.pictures)
        score = work.labels.get(case.segment_id)
        return {
            "count": len(work.segment_ids),
            "done": work.done,
            "key": None if score is None else round(score * (KEYS - 1)),
            "picture": "data:image/png;base64," + base64.b64encode(picture).decode() if picture else None,
            "text": case.text,
        }

    @app.post("/segments/{number}")
    def answer(number: int, key: Annotated[int, Body(embed=True, ge=0, lt=KEYS)]) -> dict[str, int]:
        _id(work, number)
        work.answer(number, key)
        return {"done": work.done}

    return app


def _id(work: Labelling, number: int) -> str:
    if not 0 <= number < len(work.segment_ids):
        raise HTTPException(404, f"segments are numbered 0 to {len(work.segment_ids) - 1}")
    return work.segment_ids[number]
