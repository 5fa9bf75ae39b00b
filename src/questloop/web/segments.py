"""Lists of segments for the dashboard: sorted, as cards, and frame by frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from questloop.episodes.reader import SegmentView
from questloop.episodes.segment import Manifest
from questloop.judges.scores import SegmentScores
from questloop.report import page_data
from questloop.report.book import RunBook
from questloop.storage.keys import Stage

LATEST = 12
"""epochs that are searched for takeovers"""


class Order(StrEnum):
    """How a list of segments is sorted."""

    NEWEST = "newest"
    BEST = "best"
    WORST = "worst"
    DISPUTED = "disputed"


@dataclass(frozen=True)
class Card:
    """A segment in a list."""

    manifest: Manifest
    line: SegmentScores | None


class SegmentPages:
    """Lists of segments; of those on the page alone anything but the id and the scores is read."""

    def __init__(self, book: RunBook) -> None:
        self._book = book

    def ordered(self, epoch: int | None, order: Order) -> list[str]:
        """Ids of an epoch, or of all; by score only the judged ones."""
        epochs = [epoch] if epoch is not None else list(reversed(self._book.exported()))
        if order is Order.NEWEST:
            return [name for number in epochs for name in reversed(self._book.segments(number))]
        if order is Order.DISPUTED:
            agreement = {name: value for each in epochs for name, value in self._book.agreement(each).items()}
            return sorted(agreement, key=lambda name: (agreement[name], name))
        scores = {name: score for number in epochs for name, score in self._book.weighted(number).items()}
        sign = -1 if order is Order.BEST else 1
        return sorted(scores, key=lambda name: (sign * scores[name], name))

    def cards(self, ids: Sequence[str]) -> list[Card]:
        """The segments as cards."""
        manifests = [self._book.manifest(name) for name in ids]
        return [Card(found, self._book.scores(found.epoch).get(found.segment_id)) for found in manifests]

    def planned(self, most: int = 12) -> list[Card]:
        """Segments of the newest epoch in which the planner played, of the last hundred."""
        exported = self._book.exported()
        if not exported or not self._book.info(exported[-1], Stage.ROLLOUTS).get("planner"):
            return []
        newest = exported[-1]
        return self.cards(self._book.once(("planned", newest, most), partial(self._planned, newest, most)))

    def _planned(self, epoch: int, most: int) -> list[str]:
        found: list[str] = []
        for name in reversed(self._book.segments(epoch)[-100:]):
            modes = Counter(line.get("mode") for line in self._book.reader.load(name).states)
            if set(modes) - {"policy", None}:
                found.append(name)
            if len(found) == most:
                break
        return found

    def takeovers(self, most: int = 4) -> tuple[int | None, list[dict[str, Any]]]:
        """The newest of the latest epochs with takeovers, and them by outcome with up to `most` of each."""
        for epoch in self._book.exported()[: -LATEST - 1 : -1]:
            if self._book.info(epoch, Stage.ROLLOUTS).get("planner"):
                kinds = page_data.takeovers(self._book.episodes(epoch), most)
                if kinds:
                    return epoch, kinds
        return None, []

    def of_episode(self, episode_id: str) -> list[str]:
        """Ids of the episode's exported segments, in order."""
        prefix = f"{episode_id}-"
        names = (name for epoch in self._book.exported() for name in self._book.segments(epoch))
        return sorted(name for name in names if name.startswith(prefix))

    def spread(self, segment_id: str, most: int) -> list[tuple[int, bytes]]:
        """At most `most` pictures of a segment, evenly chosen; only those are read."""
        manifest = self._book.manifest(segment_id)
        view = SegmentView(self._book.store, manifest)
        steps = sorted(
            int(file.name.removeprefix("frames/").removesuffix(".png"))
            for file in manifest.files
            if file.name.startswith("frames/")
        )
        if not steps:
            return []
        chosen = np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int))
        return [(steps[index], view.png(steps[index]) or b"") for index in chosen]


def frame_facts(view: SegmentView, place: Callable[[str], str]) -> list[dict[str, Any]]:
    """What the player shows beside each stored picture; `place` names a room."""
    facts, paid = [], 0.0
    for line in view.states:
        paid += sum(line.get("reward", {}).values())
        if not line.get("png"):
            continue
        state = line["state"]
        health, most = state.get("health", (0, 0))
        x, y = state.get("pos", (0, 0))
        facts.append(
            {
                "step": line["step"],
                "room": place(state.get("room", "")),
                "tile": f"{x // 16},{y // 16}",
                "health": f"{health / 4:g} of {most / 4:g}",
                "mode": line.get("mode") or "policy",
                "action": str(line.get("action", "")),
                "reward": round(paid, 2) + 0.0,  # no -0.0
            }
        )
    return facts
