"""The dashboard's page about what a run was played with: settings, machine, runners, and a person's notes."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from markupsafe import Markup
from pydantic import SecretStr, ValidationError

from questloop.episodes.session import MOST_NOTES, Notes, Session
from questloop.report.book import RunBook
from questloop.report.plots import Line, line_plot
from questloop.setting_types import Origin
from questloop.storage import keys
from questloop.storage.commit import to_json
from questloop.storage.store import NotFound, Store
from questloop.web.security import check_token
from questloop.web.site import Site


def setup_pages(site: Site, token: SecretStr | None) -> APIRouter:
    """The routes of the page; notes are taken from who gives the token."""
    pages, book = APIRouter(), site.book
    secret = token.get_secret_value() if token is not None else None
    writing = threading.Lock()

    @pages.get("/run", response_class=HTMLResponse)
    def run(session: Annotated[int | None, Query(ge=0, le=10**9)] = None) -> HTMLResponse:
        sessions = book.sessions()
        chosen = next(
            (each for each in sessions if each.fence == session), sessions[-1] if sessions else None
        )
        before = [each for each in sessions if chosen is not None and each.fence < chosen.fence]
        return site.draw(
            "run.html",
            sessions=sessions,
            chosen=chosen,
            changed=changes(before[-1], chosen) if chosen is not None and before else [],
            differing=[each for each in chosen.settings if each.value != each.default] if chosen else [],
            runners=_runners(book),
            notes=read_notes(book.store),
            most=MOST_NOTES,
            writes=secret is not None,
            default=Origin.DEFAULT,
        )

    @pages.post("/run/notes")
    def write(
        request: Request, text: Annotated[str, Body(embed=True, max_length=MOST_NOTES)]
    ) -> JSONResponse:
        """Keep a person's notes in place of those that stand."""
        check_token(request, secret)
        notes = Notes(text=text.replace("\r\n", "\n").strip(), changed=datetime.now(UTC))
        with writing:
            book.store.put(keys.notes(), to_json(notes))
        return JSONResponse({"kept": len(notes.text)})

    return pages


def read_notes(store: Store) -> Notes:
    """A person's notes; empty where there are none, or none that can be read."""
    try:
        return Notes.model_validate_json(store.get(keys.notes()))
    except (NotFound, ValidationError):
        return Notes()


def changes(before: Session, after: Session) -> list[tuple[str, str | None, str | None]]:
    """Name, earlier and later value of the settings that differ between two sessions."""
    was = {each.name: each.value for each in before.settings}
    return [
        (each.name, was[each.name], each.value)
        for each in after.settings
        if each.name in was and was[each.name] != each.value
    ]


def _runners(book: RunBook) -> Markup | None:
    """Runners and those that were lost, by epoch; None for a store of a release that did not count them."""
    played: dict[int, Any] = {epoch: info for epoch, info in book.played().items() if "runners" in info}
    if not played:
        return None
    epochs = [float(epoch) for epoch in played]
    lines = [
        Line("runners", epochs, [float(max(1, info["runners"])) for info in played.values()]),
        Line("lost in the epoch", epochs, [float(info["runners_lost"]) for info in played.values()]),
    ]
    return line_plot("Runners", lines, "epoch", whole=True)
