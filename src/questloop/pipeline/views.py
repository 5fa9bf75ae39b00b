"""What a page shows of a run, read from the store: curves, maps, milestones, takeovers, segments, models.

`played` is the reports of epochs, as their rollouts' commits hold them, by epoch.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from markupsafe import Markup

from questloop.episodes.reader import SegmentReader, SegmentView
from questloop.episodes.retention import retired_epochs
from questloop.judges.scores import SegmentScores, read_scores
from questloop.pipeline import pictures
from questloop.pipeline.pictures import Room, Series
from questloop.storage.store import Store

Played = Mapping[int, Mapping[str, Any]]


class Segments:
    """Exported segments, read where a picture needs them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reader = SegmentReader(store)

    def of(self, epochs: Iterable[int]) -> Iterator[str]:
        """Ids of the segments of these epochs, the newest epoch first."""
        for epoch in sorted(epochs, reverse=True):
            yield from self._reader.list(epoch)

    def room_pictures(self, segment_ids: Iterable[str], wanted: set[Room]) -> dict[Room, bytes]:
        """A picture of every wanted room that some frame of these segments shows at rest."""
        found: dict[Room, bytes] = {}
        for segment_id in segment_ids:
            if wanted <= found.keys():
                break
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
        strip = pictures.filmstrip(frames(view))
        return {
            "title": title,
            "segment_id": line.segment_id,
            "weighted": f"{line.weighted:.2f}",
            "image": _base64(strip) if strip else "",
            "judges": [
                {
                    "name": name,
                    "model": judge.model,
                    "overall": number(judge.overall),
                    "criteria": ", ".join(f"{key} {number(value)}" for key, value in judge.scores.items()),
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


def room_visits(played: Played) -> Counter[Room]:
    """Steps with control spent in each room."""
    visits: Counter[Room] = Counter()
    for info in played.values():
        for name, count in info["room_visits"].items():
            visits[parse_room(name)] += count
    return visits


def parse_room(name: str) -> Room:
    """Group and room of a name such as `0:1f`."""
    group, _, room = name.partition(":")
    return int(group), int(room, 16)


def room_maps(
    played: Played, segments: Segments, gone: frozenset[int], room_top: int
) -> list[tuple[str, str]]:
    """Titles and pictures, PNG in base64, of the rooms visited."""
    visits = room_visits(played)
    shots = segments.room_pictures(segments.of(played.keys() - gone), set(visits))
    maps = [
        ("Overworld", pictures.overworld_map(visits, shots, room_top)),
        ("Houses, caves and dungeons", pictures.interior_map(visits, shots, room_top)),
    ]
    return [(title, _base64(image)) for title, image in maps if image is not None]


def curves(played: Played) -> list[tuple[str, Markup]]:
    """Titles and inline SVGs of the learning curves."""
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


def milestones(played: Played) -> list[tuple[str, list[int]]]:
    """How often each milestone was reached, an epoch a column."""
    names = dict.fromkeys(name for info in played.values() for name in info["milestones"])
    return [(name, [info["milestones"].get(name, 0) for info in played.values()]) for name in names]


def planner(played: Played) -> list[tuple[str, list[int | None]]]:
    """What the planner did, an epoch a column; none where it was off throughout."""
    plans = [info.get("planner") for info in played.values()]
    hints = [info.get("hints") for info in played.values()]
    totals = [
        {"steps played by plans": each["steps"], "plans": each["plans"], "invalid": each["plans_invalid"]}
        if each
        else None
        for each in plans
    ]
    return [
        *_counted("takeovers: ", [each["takeovers"] if each else None for each in plans]),
        *_counted("", totals),
        *_counted("hints: ", [each["outcomes"] if each else None for each in hints]),
    ]


def _counted(title: str, epochs: list[dict[str, int] | None]) -> list[tuple[str, list[int | None]]]:
    """A row a name; None where the part was off."""
    names = dict.fromkeys(name for counts in epochs if counts for name in counts)
    return [
        (title + name, [None if counts is None else counts.get(name, 0) for counts in epochs])
        for name in names
    ]


def calibration(info: Mapping[str, Any]) -> Markup | None:
    """An inline SVG of a reward model's predicted against observed preferences; `info` is its commit's."""
    bins = [item for item in _in_use(info)["calibration"] if item["comparisons"]]
    if not bins:
        return None
    return Markup(
        pictures.calibration_chart(
            [item["predicted"] for item in bins],
            [item["observed"] for item in bins],
            [item["comparisons"] for item in bins],
        )
    )


def reward_model(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of what is known of a reward model; `info` is its commit's."""
    reading = _in_use(info)
    return [
        ("reading in use", str(info["reading"])),
        ("accuracy against the judges", with_interval(reading["judges"])),
        ("accuracy against what followed", with_interval(reading["gold"])),
        ("order of states by their milestones", with_interval(reading["potential"])),
        *(
            (f"the other reading, {name}", with_interval(other["judges"]))
            for name, other in info["readings"].items()
            if name != info["reading"]
        ),
        ("Brier score", number(reading["brier"])),
        ("length-only classifier", number(info["length_only"])),
        ("drift since the epoch before", number(info["drift"])),
        ("segments, episodes", f"{info['segments']}, {info['episodes']}"),
        ("pairs learned from, held out", f"{info['learned']:,}, {info['held_out']:,}"),
    ]


def frames(view: SegmentView) -> list[tuple[int, bytes]]:
    """Steps and PNG bytes of a segment's pictures."""
    named = ((line["step"], view.png(line["step"])) for line in view.states if line["png"])
    return [(step, png) for step, png in named if png is not None]


def with_interval(accuracy: Mapping[str, Any]) -> str:
    """A share and its interval as text."""
    if accuracy["value"] is None:
        return "–"
    return f"{accuracy['value']:.2f} ({number(accuracy['low'])} to {number(accuracy['high'])})"


def number(value: float | None) -> str:
    """Two digits, or a dash for what is not known."""
    return "–" if value is None else f"{value:.2f}"


def _in_use(info: Mapping[str, Any]) -> Mapping[str, Any]:
    reading: Mapping[str, Any] = info["readings"][info["reading"]]
    return reading


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
