"""The HTML report of a run: one self-contained file, made from the store alone."""

from __future__ import annotations

import base64
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from questloop.episodes.plain import counted
from questloop.episodes.reader import SegmentReader
from questloop.episodes.retention import retired_epochs
from questloop.episodes.run import read_run
from questloop.episodes.session import read_sessions, setting_values
from questloop.errors import UnavailableError
from questloop.game.profile import Profile
from questloop.game.profiles import profile_in_force
from questloop.local_files import write_file
from questloop.report import charts, page_data, summary, table, words
from questloop.report.still import poster
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.commit import committed_epochs, read_commit
from questloop.storage.keys import MODELS, Stage
from questloop.storage.store import Store
from questloop.telemetry.progress import Tell

REPORT_KEY = f"{MODELS}/pipeline/report.html"
MOST_FILM_BYTES = 4_000_000
"""A larger film is linked, not put into the page."""
PARTS = {
    "RND_COEF": "curiosity (RND)",
    "SHAPING_COEF": "judges' feedback (shaping)",
    "ARCHIVE_FRACTION": "starts from the archive",
    "AWR_TOP_K": "learning from the best episodes (AWR)",
    "SIL_COEF": "learning from own successes (SIL)",
    "CURRICULUM": "harder starts over time (curriculum)",
    "PLANNER": "planner",
    "AIMS": "led to the next aim",
    "HINT_INTERVAL": "hints",
}
"""Parts of the agent by the setting that 0 or off switches off."""
_PARTS = 4


def write_report(
    store: Store,
    settings: Settings,
    tell: Tell = lambda done, total: None,
    otherwise: Path | None = None,
) -> str:
    """Write the report into the store, or to `otherwise` where the store may only be read.

    Returns where it is, a path for a folder.
    """
    page = render(store, settings, tell).encode()
    try:
        store.put(REPORT_KEY, page)
    except UnavailableError:
        if otherwise is None:
            raise
        write_file(otherwise, page)
        return str(otherwise)
    return f"{store.url.rstrip('/')}/{REPORT_KEY}"


def render(store: Store, settings: Settings, tell: Tell = lambda done, total: None) -> str:
    """The page; `tell` hears of its parts. Raises `BadDataError` where the store holds no run."""
    run = read_run(store)
    tell(0, _PARTS)
    profile = profile_in_force(settings.game)
    rows = table.rows(store)
    epochs = [row.epoch for row in rows]
    played = {epoch: _info(store, epoch, Stage.ROLLOUTS) for epoch in epochs}
    tell(1, _PARTS)
    segments = page_data.Segments(store)
    gone = retired_epochs(store)
    maps = page_data.room_maps(played, segments, gone, profile)
    tell(2, _PARTS)
    judged = [number for number in committed_epochs(store, Stage.EVALUATE) if number in epochs]
    learned = [number for number in committed_epochs(store, Stage.REWARD_MODEL) if number in epochs]
    model = _info(store, learned[-1], Stage.REWARD_MODEL) if learned else None
    titles = {milestone.key: milestone.title for milestone in profile.milestones}
    milestones = [(titles.get(name, name), counts) for name, counts in page_data.milestones(played)]
    best_and_worst = segments.best_and_worst(set(judged) - gone, titles)
    tell(3, _PARTS)
    page: str = _template(profile).render(
        run=run,
        steps=f"{sum(row.steps for row in rows):,}",
        parts=_parts(store, settings),
        tiles=_tiles(rows, milestones),
        sentences=summary.sentences(rows, titles),
        figures=table.FIGURES.values(),
        rows=[table.cells(row) for row in rows],
        charts=charts.learning_curves(played),
        maps=maps,
        film=_film(store),
        script=Markup(_read("static", "page.js")),
        epochs=epochs,
        milestones=[item for item in milestones if any(item[1])],
        guide=profile.guide.text if profile.guide else None,
        aims=page_data.aims(played, profile.guide) if profile.guide else [],
        ahead=[title for title, counts in milestones if not any(counts)],
        planner=page_data.planner(played),
        takeovers=_takeovers(store, set(epochs) - gone),
        judges=page_data.judges(_info(store, judged[-1], Stage.EVALUATE)) if judged else [],
        judged=judged[-1] if judged else None,
        words=words,
        unknown=_info(store, judged[-1], Stage.EVALUATE).get("unknown", {}) if judged else {},
        segments=best_and_worst,
        calibration=charts.calibration(model) if model else None,
        reward_model=page_data.reward_model(model, lambda name: titles.get(name, name)) if model else [],
    )
    tell(_PARTS, _PARTS)
    return page


def _tiles(rows: list[table.Row], milestones: list[tuple[str, list[int]]]) -> list[tuple[str, str, str]]:
    """Figure, what it is, and beside what."""
    if not rows:
        return []
    first, last = rows[0], rows[-1]
    reached = sum(any(counts) for _, counts in milestones)
    start = f"{table.text('milestones_per_episode', first)} in epoch {first.epoch}"
    return [
        (table.text("milestones_per_episode", last), "milestones per episode", start),
        (str(last.unique_rooms), "rooms in the last epoch", f"{first.unique_rooms} in epoch {first.epoch}"),
        (f"{reached} of {len(milestones)}", "milestones", "reached by an episode of the run"),
        (
            table.text("judge_agreement", last),
            "judges' agreement",
            "alpha; 1: perfect; near 0: chance, or play is alike",
        ),
        (
            table.text("reward_model_accuracy", last),
            "reward model agrees with judges",
            "of pairs it did not learn from; 50% is chance",
        ),
        (table.text("steps_per_second", last), "steps per second", "playing and learning"),
    ]


def _film(store: Store) -> dict[str, Any] | None:
    """The newest film of an epoch's best episode: inside the page, or beside it where it is large."""
    entries = {entry.key: entry.size for entry in store.list(keys.films_prefix())}
    named = {key: keys.parse_film(key) for key in entries}
    best = {found[0]: key for key, found in named.items() if found is not None and found[1] == "best"}
    if not best:
        return None
    epoch, key = max(best.items())
    if entries[key] > MOST_FILM_BYTES:
        return {"epoch": epoch, "where": f"../../{key}", "data": None}
    film = store.get(key)
    first = poster(film)  # a phone shows none before it plays
    return {
        "epoch": epoch,
        "where": None,
        "data": base64.b64encode(film).decode(),
        "still": base64.b64encode(first).decode() if first else None,
    }


def _takeovers(store: Store, epochs: set[int]) -> list[dict[str, Any]]:
    """Those of the newest epoch that has any."""
    reader = SegmentReader(store)
    kinds = (page_data.takeovers(reader.episodes(epoch), each=1) for epoch in sorted(epochs, reverse=True))
    return next(filter(None, kinds), [])


def _parts(store: Store, settings: Settings) -> list[tuple[str, bool]]:
    """Whether each part was on in the run's newest session; by `settings` where the store kept none."""
    sessions = read_sessions(store)
    known = sessions[-1].settings if sessions else setting_values(settings)
    values = {each.name: each.value for each in known}
    return [(title, values.get(name) not in (None, "off", "0")) for name, title in PARTS.items()]


def _info(store: Store, epoch: int, stage: Stage) -> dict[str, Any]:
    commit = read_commit(store, epoch, stage)
    assert commit is not None
    return dict(commit.info)


def _template(profile: Profile) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["place"] = lambda room: page_data.place_title(profile, room)
    environment.filters |= {"alike": page_data.alike, "counted": counted}
    return environment.from_string(_read("templates", "report.html"))


def _read(folder: str, name: str) -> str:
    return resources.files("questloop.report").joinpath(folder, name).read_text("utf-8")
