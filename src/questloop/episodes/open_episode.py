"""An episode while it is recorded: what will be its record and its replay, and how a checkpoint keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from questloop.episodes.replays import Replay, scripts_from_json, scripts_to_json
from questloop.episodes.segment import SEGMENT_FRAMES, EpisodeOutcome, EpisodeRecord, SegmentEntry
from questloop.episodes.takeover import Takeover
from questloop.episodes.trace import EpisodeStart
from questloop.storage.keys import EpisodeId


@dataclass
class OpenEpisode:
    """An episode that is being recorded."""

    id: EpisodeId
    epochs: list[int]
    start: EpisodeStart
    seen: int  # bitmask of milestones, those of the start state included
    steps: int = 0
    raw_return: float = 0.0
    milestones: dict[str, int] = field(default_factory=dict)
    entries: dict[str, SegmentEntry] = field(default_factory=dict)
    outcome: EpisodeOutcome = EpisodeOutcome.RUNNING
    action: bytearray = field(default_factory=bytearray)
    mode: bytearray = field(default_factory=bytearray)
    scripts: dict[int, bytes] = field(default_factory=dict)
    reloads: list[int] = field(default_factory=list)
    last_taps: str = ""
    takeovers: list[Takeover] = field(default_factory=list)
    segment_steps: int = SEGMENT_FRAMES
    recorded: int = 0  # steps whose inputs its saved state holds

    def record(self) -> EpisodeRecord:
        """`episode.json` as it stands now."""
        return EpisodeRecord(
            id=str(self.id),
            run=self.id.run,
            epochs=tuple(self.epochs),
            slot=self.id.slot,
            seed=self.start.seed,
            start_state=self.start.state,
            steps=self.steps,
            raw_return=self.raw_return,
            outcome=self.outcome,
            segment_steps=self.segment_steps,
            milestones=dict(self.milestones),
            segments=tuple(self.entries.values()),
            takeovers=tuple(self.takeovers),
        )

    def replay(self) -> Replay:
        """What is needed to play it again."""
        return Replay(
            episode_id=str(self.id),
            start_state=self.start.state,
            action=np.frombuffer(bytes(self.action), np.uint8),
            mode=np.frombuffer(bytes(self.mode), np.uint8),
            scripts=dict(self.scripts),
            reloads=tuple(self.reloads),
            raw_return=self.raw_return,
            outcome=self.outcome,
            segment_steps=self.segment_steps,
            milestones=dict(self.milestones),
            last_taps=self.last_taps,
        )

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint; the inputs go apart, as arrays."""
        return {
            "id": str(self.id),
            "epochs": self.epochs,
            "start": asdict(self.start),
            "seen": self.seen,
            "steps": self.steps,
            "raw_return": self.raw_return,
            "milestones": self.milestones,
            "entries": [entry.model_dump(mode="json") for entry in self.entries.values()],
            "recorded": len(self.action),
            "scripts": scripts_to_json(self.scripts),
            "segment_steps": self.segment_steps,
            "reloads": self.reloads,
            "last_taps": self.last_taps,
            "takeovers": [each.model_dump(mode="json") for each in self.takeovers],
        }

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> OpenEpisode:
        """Read what `to_json` gave, in this or an earlier version."""
        entries = [SegmentEntry.model_validate(entry) for entry in item["entries"]]
        return cls(
            id=EpisodeId.parse(item["id"]),
            epochs=item["epochs"],
            start=EpisodeStart(**item["start"]),
            seen=item["seen"],
            steps=item["steps"],
            raw_return=item["raw_return"],
            milestones=item["milestones"],
            entries={entry.segment_id: entry for entry in entries},
            recorded=item.get("recorded", 0),
            scripts=scripts_from_json(item.get("scripts", {})),
            segment_steps=item.get("segment_steps", SEGMENT_FRAMES),
            reloads=[*item.get("reloads", []), item["steps"]],
            last_taps=item.get("last_taps", ""),
            takeovers=[Takeover.model_validate(each) for each in item.get("takeovers", ())],
        )
