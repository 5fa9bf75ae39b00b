"""What pages show of a run, read from the store: milestones, takeovers, segments, judges, models.

`played` is the reports of epochs, as their rollouts' commits hold them, by epoch.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from questloop.episodes.reader import SegmentReader, SegmentView
from questloop.episodes.retention import retired_epochs
from questloop.episodes.segment import EpisodeRecord
from questloop.episodes.takeover import Takeover
from questloop.game.guide import Guide, place_name
from questloop.game.profile import Profile
from questloop.judges.scores import SegmentScores, read_scores
from questloop.report import images
from questloop.report.images import Room
from questloop.report.words import MODEL
from questloop.storage.store import Store

Played = Mapping[int, Mapping[str, Any]]

EACH = 2
"""Segments shown from either end of the ranking."""

_STRIP = 6  # pictures of a filmstrip
_NOT_AT_REST = ("transition", "menu", "text", "no_control")


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

    def best_and_worst(self, epochs: Iterable[int], titles: Mapping[str, str]) -> list[dict[str, Any]]:
        """The segments with the highest and the lowest scores of the newest judged epoch, best first."""
        newest = max(set(epochs) - retired_epochs(self._store), default=None)
        if newest is None:
            return []
        scores = [line for line in read_scores(self._store, newest) if line.weighted is not None]
        ranked = sorted(scores, key=lambda line: (line.weighted, line.segment_id), reverse=True)
        places = list(enumerate(ranked, 1))
        shown = [(f"Best segment of epoch {newest}", *item) for item in places[:EACH]]
        shown += [(f"Worst segment of epoch {newest}", *item) for item in places[EACH:][-EACH:]]
        return [self._card(title, f"{place} of {len(ranked)}", line, titles) for title, place, line in shown]

    def _card(self, title: str, place: str, line: SegmentScores, titles: Mapping[str, str]) -> dict[str, Any]:
        view = self._reader.load(line.segment_id)
        strip = images.filmstrip(frames(view))
        return {
            "title": title,
            "place": place,
            "segment_id": line.segment_id,
            "weighted": number(line.weighted),
            "earned": number(view.manifest.raw_return),
            "milestones": ", ".join(titles.get(key, key) for key in view.manifest.milestones),
            "image": _base64(strip) if strip else "",
            "criteria": [(name, value, number(value)) for name, value in line.criteria.items()],
            "judges": [
                {
                    "name": name,
                    "model": judge.model,
                    "overall": number(judge.overall),
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
            busy = any(state.get(key) for key in _NOT_AT_REST)
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


def place_title(profile: Profile | None, room: str) -> str:
    """What a profile calls a room such as `0:21`; `room 0:21` where it has no name."""
    try:
        found = parse_room(room)
    except ValueError:
        return room
    return profile.place_names.get(found, f"room {room}") if profile else f"room {room}"


def room_maps(
    played: Played, segments: Segments, gone: frozenset[int], profile: Profile
) -> list[tuple[str, str]]:
    """Titles and pictures, PNG in base64, of the rooms visited, named as the profile does."""
    visits = room_visits(played)
    shots = segments.room_pictures(segments.of(played.keys() - gone), set(visits))
    names = profile.place_names
    maps = [
        ("Overworld", images.overworld_map(visits, shots, profile.room_top, names)),
        ("Houses, caves and dungeons", images.interior_map(visits, shots, profile.room_top, names)),
    ]
    return [(title, _base64(image)) for title, image in maps if image is not None]


def milestones(played: Played) -> list[tuple[str, list[int]]]:
    """How often each milestone was reached, a column per epoch."""
    names = dict.fromkeys(name for info in played.values() for name in info["milestones"])
    return [(name, [info["milestones"].get(name, 0) for info in played.values()]) for name in names]


def aims(played: Mapping[int, dict[str, Any]], guide: Guide) -> list[tuple[str, str | None, list[str]]]:
    """What the guide says to do next, and the share of each epoch's steps with that aim before them.

    Between them stands the place to which judges last sent agents; None in a run where they were not asked.
    """
    shares = [info.get("aims") for info in played.values()]
    if not any(shares):
        return []
    judged = [info["judged_aims"] for info in played.values() if info.get("judged_aims") is not None]
    names = {place_name(place): name for place, name in guide.names.items()}
    rows = []
    for aim in guide.aims:
        row = [each.get(aim.key, 0.0) if each else 0.0 for each in shares]
        room = judged[-1].get(aim.key) if judged else None
        sent = (names.get(room, room) if room else "not asked yet") if judged else None
        if any(row):
            rows.append((aim.what, sent, [f"{share:.1%}" if share else "–" for share in row]))
    return rows


def planner(played: Played) -> list[tuple[str, list[int | None]]]:
    """What the planner did, a column per epoch; none where it was off throughout."""
    plans = [info.get("planner") for info in played.values()]
    hints = [info.get("hints") for info in played.values()]
    totals = [
        {
            "steps played by plans": each["steps"],
            "plans": each["plans"],
            "invalid plans": each["plans_invalid"],
        }
        if each
        else None
        for each in plans
    ]
    return [
        *_counted("", [_taken_over(each["takeovers"]) if each else None for each in plans]),
        *_counted("", totals),
        *_counted("hints: ", [each["outcomes"] if each else None for each in hints]),
    ]


def _taken_over(outcomes: Mapping[str, int]) -> dict[str, int]:
    """`puzzle taken over: no_progress` for `puzzle no_progress`."""
    return {name.replace(" ", " taken over: ", 1): count for name, count in outcomes.items()}


def takeovers(records: Iterable[EpisodeRecord], each: int) -> list[dict[str, Any]]:
    """The planner's takeovers of these episodes by mode and outcome, the most frequent first.

    Of every kind: `count`, mean `steps` and `plans`, and as `examples` the `each` that cost most.
    """
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        for played in record.takeovers:
            kinds.setdefault((played.mode, played.outcome), []).append(_takeover(record, played))
    return [
        {
            "mode": mode,
            "outcome": outcome,
            "count": len(found),
            "steps": sum(item["steps"] for item in found) / len(found),
            "plans": sum(len(item["plans"]) for item in found) / len(found),
            "examples": sorted(found, key=lambda item: -item["steps"])[:each],
        }
        for (mode, outcome), found in sorted(kinds.items(), key=lambda item: -len(item[1]))
    ]


def _takeover(record: EpisodeRecord, played: Takeover) -> dict[str, Any]:
    """`segment`: the exported one that shows its first step, or None."""
    shown = (
        entry.segment_id
        for entry in record.segments
        if entry.exported and entry.first_step <= played.first_step < entry.first_step + entry.frames
    )
    return {**played.model_dump(), "episode": record.id, "segment": next(shown, None)}


def alike(plans: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Plans of a takeover, those that say and did the same one after the other as one with their number."""

    def gist(plan: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(str(plan[key]) for key in ("source", "reason", "macros", "played", "ended"))

    groups = (list(group) for _, group in groupby(plans, gist))
    return [(group[0], len(group)) for group in groups]


def _counted(title: str, epochs: list[dict[str, int] | None]) -> list[tuple[str, list[int | None]]]:
    """A row per name; None where the part was off."""
    names = dict.fromkeys(name for counts in epochs if counts for name in counts)
    return [
        (
            title + name.replace("_", " "),
            [None if counts is None else counts.get(name, 0) for counts in epochs],
        )
        for name in names
    ]


def judges(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """What each judge of a pass did; `summary` is its commit's."""
    return [
        {
            "judge": name,
            "model": judge["model"],
            "votes": f"{judge['votes']:,}",
            "invalid": _with_reasons(judge["votes"] - judge["valid"], judge.get("invalid") or {}),
            "mean": number(judge["mean_overall"]),
            "spread": "always the same" if judge["deterministic"] else number(judge["mean_spread"]),
            "tau": number(judge["tau"].get("tau")),
            "followed": f"{judge['tau']['positive']} of {judge['tau']['n']}"
            if judge["tau"].get("n")
            else "–",
            "latency": f"{1000 * judge['latency_s']['p50']:.0f} ms" if judge["latency_s"] else "–",
        }
        for name, judge in summary["judges"].items()
    ]


def _with_reasons(count: int, reasons: Mapping[str, int]) -> str:
    told = ", ".join(f"{reason.replace('_', ' ')} {times}" for reason, times in reasons.items())
    return f"{count:,} ({told})" if told else f"{count:,}"


def reward_model(info: Mapping[str, Any], title: Callable[[str], str] = str) -> list[tuple[str, str, str]]:
    """Names, hints and values of what is known of a reward model.

    `info` is its commit's, `title` names milestones by their keys.
    """
    reading = reading_in_use(info)
    trust, walkthrough = reading.get("trust"), info.get("walkthrough")
    values = {
        "reading": str(info["reading"]),
        "judges": with_interval(reading["judges"]),
        "gold": with_interval(reading["gold"]),
        "cells": with_interval(reading["cells"]) if reading.get("cells") else None,
        "trust": with_interval(trust) if trust else None,  # none of a version that measured it not
        "spearman": number(walkthrough["spearman"]) if walkthrough else None,
        "largest_fall": number(walkthrough["largest_fall"]) if walkthrough else None,
        "brier": number(reading["brier"]),
        "length_only": number(info["length_only"]),
        "drift": number(info["drift"]),
        "learned_from": f"{info['segments']}, {info.get('cells', 0)}, {info['episodes']}",
        "pairs": f"{info['learned']:,}, {info['held_out']:,}",
    }
    rows = []
    for name, value in values.items():
        if value is None:
            continue
        rows.append((*MODEL[name], value))
        if name == "trust" and trust:
            rows += [(f"… “{title(key)}”", "", number(share)) for key, share in trust["milestones"].items()]
    return rows


def frames(view: SegmentView) -> list[tuple[int, bytes]]:
    """Steps and PNG bytes of a segment's pictures; those of menus and dialogs where there are few others."""
    drawn = [line for line in view.states if line["png"]]
    at_rest = [line for line in drawn if not any(line["state"].get(key) for key in _NOT_AT_REST)]
    chosen = at_rest if len(at_rest) >= _STRIP else drawn
    named = ((line["step"], view.png(line["step"])) for line in chosen)
    return [(step, png) for step, png in named if png is not None]


def with_interval(accuracy: Mapping[str, Any]) -> str:
    """A share and its interval as text."""
    if accuracy["value"] is None:
        return "–"
    return f"{accuracy['value']:.2f} ({number(accuracy['low'])} to {number(accuracy['high'])})"


def number(value: float | None) -> str:
    """Two digits, or a dash for what is not known."""
    return "–" if value is None else f"{value:z.2f}"


def reading_in_use(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reward model's report says of the reading that it uses."""
    reading: Mapping[str, Any] = info["readings"][info["reading"]]
    return reading


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
