"""What every page of the dashboard uses: the run's documents and the templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from questloop.episodes.plain import counted
from questloop.report import page_data, words
from questloop.report.book import RunBook
from questloop.settings import Settings
from questloop.storage.store import Store
from questloop.web.archive import ArchiveBook
from questloop.web.names import Names, commands, episode_title
from questloop.web.rooms import RoomBook
from questloop.web.segments import SegmentPages

EpochNumber = Annotated[int, Path(ge=0, le=10**9)]
Name = Annotated[str, Path(max_length=120)]


class Templates:
    """Renders a template with what every page shows: the run, its progress and the store's address."""

    def __init__(
        self, book: RunBook, has_fleet: bool, names: Names, base: str = "", lists_runs: bool = False
    ) -> None:
        """`base`: the path before every page's own, empty but where the run is one of several.

        `lists_runs`: the pages are about those several runs.
        """
        self._book, self._has_fleet = book, has_fleet
        self._templates = Environment(
            loader=PackageLoader("questloop.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {"base": base, "among_runs": bool(base), "lists_runs": lists_runs}
        self._templates.filters["milestone"] = names.milestone
        self._templates.filters["place"] = names.place
        self._templates.filters["start"] = names.start
        self._templates.filters["part"] = words.part_title
        self._templates.filters["setting"] = words.setting_title
        self._templates.filters["group_title"] = words.group_title
        self._templates.filters["outcome"] = words.OUTCOMES.__getitem__
        self._templates.filters["episode"] = episode_title
        self._templates.filters["alike"] = page_data.alike
        self._templates.filters["number"] = page_data.number
        self._templates.filters["counted"] = counted
        self._templates.filters["commands"] = commands
        self._templates.filters["with_interval"] = page_data.with_interval

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


@dataclass(frozen=True)
class Site:
    """The parts that the groups of pages share."""

    book: RunBook
    draw: Templates
    rooms: RoomBook
    archive: ArchiveBook
    segments: SegmentPages
    names: Names

    @classmethod
    def of(cls, store: Store, settings: Settings, has_fleet: bool, base: str = "") -> Site:
        """The site of the run in `store`."""
        book, names = RunBook(store), Names(settings.game)
        return cls(
            book,
            Templates(book, has_fleet, names, base),
            RoomBook(book, settings.game),
            ArchiveBook(book, settings.game),
            SegmentPages(book),
            names,
        )


def png(data: bytes) -> Response:
    """A picture that never changes, so that browsers keep it."""
    headers = {"Cache-Control": "private, max-age=604800, immutable"}
    return Response(data, media_type="image/png", headers=headers)
