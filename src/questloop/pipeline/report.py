"""The HTML report of a run: one self-contained file, made from the store alone."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from questloop.episodes.reader import SegmentReader, SegmentView
from questloop.episodes.retention import retired_epochs
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.judges.scores import SegmentScores, read_scores
from questloop.pipeline import pictures, table
from questloop.pipeline.pictures import Room, Series
from questloop.pipeline.run import read_run
from questloop.settings import Settings
from questloop.storage.commit import committed_epochs, read_commit
from questloop.storage.keys import MODELS, Stage
from questloop.storage.store import Store

REPORT_KEY = f"{MODELS}/pipeline/report.html"


def write_report(store: Store, settings: Settings) -> str:
    """Write the report into the store; returns where it is, a path for a folder."""
    store.put(REPORT_KEY, render(store, settings).encode())
    return f"{store.url.rstrip('/')}/{REPORT_KEY}"


def render(store: Store, settings: Settings) -> str:
    """The page. Raises `BadDataError` where the store holds no run."""
    run = read_run(store)
    rows = table.rows(store)
    epochs = [row.epoch for row in rows]
    played = {epoch: _info(store, epoch, Stage.ROLLOUTS) for epoch in epochs}
    segments = _Segments(store)
    gone = retired_epochs(store)
    learned = [number for number in committed_epochs(store, Stage.REWARD_MODEL) if number in epochs]
    page = _template().render(
        run=run,
        steps=f"{sum(row.steps for row in rows):,}",
        parts=_parts(settings),
        columns=list(table.COLUMNS.values()),
        rows=[table.cells(row) for row in rows],
        legend=table.LEGEND,
        charts=_charts(played),
        maps=_maps(played, segments, gone, profile_for(Rom.load(settings.game.rom_path)).room_top),
        milestone_epochs=epochs,
        milestones=_milestones(played),
        takeovers=_takeovers(played),
        segments=segments.best_and_worst(set(committed_epochs(store, Stage.EVALUATE)) - gone),
        calibration=_calibration(store, learned),
        reward_model=_reward_model(store, learned),
    )
    return page


class _Segments:
    """Exported segments, read where a picture needs them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reader = SegmentReader(store)

    def room_pictures(self, epochs: Iterable[int], wanted: set[Room]) -> dict[Room, bytes]:
        """A picture of every wanted room that some exported frame shows at rest."""
        found: dict[Room, bytes] = {}
        for epoch in sorted(epochs, reverse=True):
            for segment_id in self._reader.list(epoch):
                if wanted <= found.keys():
                    return found
                self._look(self._reader.load(segment_id), wanted, found)
        return found

    def best_and_worst(self, epochs: Iterable[int]) -> list[dict[str, Any]]:
        """The segments with the highest and the lowest score of the newest judged epoch."""
        judged = sorted(set(epochs) - retired_epochs(self._store))
        if not judged:
            return []
        scores = [line for line in read_scores(self._store, judged[-1]) if line.weighted is not None]
        if not scores:
            return []
        ranked = sorted(scores, key=lambda line: (line.weighted, line.segment_id))
        return [
            self._card(f"Best segment of epoch {judged[-1]}", ranked[-1]),
            self._card(f"Worst segment of epoch {judged[-1]}", ranked[0]),
        ]

    def _card(self, title: str, line: SegmentScores) -> dict[str, Any]:
        view = self._reader.load(line.segment_id)
        strip = pictures.filmstrip(_frames(view))
        return {
            "title": title,
            "segment_id": line.segment_id,
            "weighted": f"{line.weighted:.2f}",
            "image": _base64(strip) if strip else "",
            "judges": [
                {
                    "name": name,
                    "model": judge.model,
                    "overall": _number(judge.overall),
                    "criteria": ", ".join(f"{key} {_number(value)}" for key, value in judge.scores.items()),
                    "reason": next((vote.reason for vote in judge.votes if vote.invalid is None), ""),
                }
                for name, judge in line.judges.items()
            ],
        }

    @staticmethod
    def _look(view: SegmentView, wanted: set[Room], found: dict[Room, bytes]) -> None:
        for line in view.states:
            state = line["state"]
            group, _, number = state["room"].partition(":")
            room = int(group), int(number, 16)
            busy = any(state.get(key) for key in ("transition", "menu", "text", "no_control"))
            if line["png"] and not busy and room in wanted and room not in found:
                png = view.png(line["step"])
                if png is not None:
                    found[room] = png


def _maps(
    played: dict[int, dict[str, Any]], segments: _Segments, gone: frozenset[int], room_top: int
) -> list[tuple[str, str]]:
    visits: Counter[Room] = Counter()
    for info in played.values():
        for name, count in info["room_visits"].items():
            group, _, room = name.partition(":")
            visits[int(group), int(room, 16)] += count
    shots = segments.room_pictures(played.keys() - gone, set(visits))
    maps = [
        ("Overworld", pictures.overworld_map(visits, shots, room_top)),
        ("Houses, caves and dungeons", pictures.interior_map(visits, shots, room_top)),
    ]
    return [(title, _base64(image)) for title, image in maps if image is not None]


def _charts(played: dict[int, dict[str, Any]]) -> list[tuple[str, Markup]]:
    curve = [point for info in played.values() for point in info["curve"]]
    boundaries = [info["step_start"] for info in played.values()][1:]
    steps = [point["step"] for point in curve]
    wanted = [
        ("Return", "reward per 1000 steps", "return_per_1000_steps"),
        ("Rooms", "rooms entered by an episode", "unique_rooms_per_episode"),
        ("Entropy of the policy", "nats", "entropy"),
    ]
    return [
        (
            title,
            Markup(
                pictures.line_chart(
                    [Series(label, steps, [point[key] for point in curve])], label, boundaries
                )
            ),
        )
        for title, label, key in wanted
        if curve and key in curve[0]
    ]


def _milestones(played: dict[int, dict[str, Any]]) -> list[tuple[str, list[int]]]:
    names = dict.fromkeys(name for info in played.values() for name in info["milestones"])
    return [(name, [info["milestones"].get(name, 0) for info in played.values()]) for name in names]


def _takeovers(played: dict[int, dict[str, Any]]) -> list[tuple[str, list[int | None]]]:
    """What the planner did, an epoch a column; none where it was off throughout."""
    reports = [info.get("planner") for info in played.values()]
    outcomes = dict.fromkeys(name for report in reports if report for name in report["takeovers"])
    return [
        *(
            (
                f"takeovers: {name}",
                [report["takeovers"].get(name, 0) if report else None for report in reports],
            )
            for name in outcomes
        ),
        *(
            (title, [report[key] if report else None for report in reports])
            for title, key in (
                ("steps played by plans", "steps"),
                ("plans", "plans"),
                ("invalid", "plans_invalid"),
            )
            if any(reports)
        ),
    ]


def _calibration(store: Store, learned: list[int]) -> Markup | None:
    if not learned:
        return None
    reading = _reading(store, learned[-1])
    bins = [item for item in reading["calibration"] if item["comparisons"]]
    if not bins:
        return None
    return Markup(
        pictures.calibration_chart(
            [item["predicted"] for item in bins],
            [item["observed"] for item in bins],
            [item["comparisons"] for item in bins],
        )
    )


def _reward_model(store: Store, learned: list[int]) -> list[tuple[str, str]]:
    if not learned:
        return []
    info, reading = _info(store, learned[-1], Stage.REWARD_MODEL), _reading(store, learned[-1])
    judges, gold = reading["judges"], reading["gold"]
    return [
        ("reading in use", str(info["reading"])),
        ("accuracy against the judges", _with_interval(judges)),
        ("accuracy against what followed", _with_interval(gold)),
        ("order of states by their milestones", _with_interval(reading["potential"])),
        *(
            (f"the other reading, {name}", _with_interval(other["judges"]))
            for name, other in info["readings"].items()
            if name != info["reading"]
        ),
        ("Brier score", _number(reading["brier"])),
        ("length-only classifier", _number(info["length_only"])),
        ("drift since the epoch before", _number(info["drift"])),
        ("segments, episodes", f"{info['segments']}, {info['episodes']}"),
        ("pairs learned from, held out", f"{info['learned']:,}, {info['held_out']:,}"),
    ]


def _parts(settings: Settings) -> list[tuple[str, bool]]:
    on = settings.exploration
    return [
        ("RND curiosity", on.rnd_coef > 0),
        ("AI-feedback shaping", on.shaping_coef > 0),
        ("archive restarts", on.archive_fraction > 0),
        ("AWR", on.awr_top_k > 0),
        ("SIL", on.sil_coef > 0),
        ("curriculum", on.curriculum),
        ("planner", on.planner),
        ("hints", on.hint_interval > 0),
    ]


def _frames(view: SegmentView) -> list[tuple[int, bytes]]:
    named = ((line["step"], view.png(line["step"])) for line in view.states if line["png"])
    return [(step, png) for step, png in named if png is not None]


def _info(store: Store, epoch: int, stage: Stage) -> dict[str, Any]:
    commit = read_commit(store, epoch, stage)
    assert commit is not None
    return dict(commit.info)


def _reading(store: Store, epoch: int) -> dict[str, Any]:
    info = _info(store, epoch, Stage.REWARD_MODEL)
    reading: dict[str, Any] = info["readings"][info["reading"]]
    return reading


def _with_interval(accuracy: dict[str, Any]) -> str:
    if accuracy["value"] is None:
        return "–"
    return f"{accuracy['value']:.2f} ({_number(accuracy['low'])} to {_number(accuracy['high'])})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _template():  # type: ignore[no-untyped-def]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    text = resources.files("questloop.pipeline").joinpath("templates", "report.html").read_text("utf-8")
    return environment.from_string(text)
