"""What the steps share: the segments, who learns from which of them, and the held-out pairs."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from questloop.game.guide import Guide
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.grpo.judge_data import JudgedState, OutcomeSegment, sample_pairs, split_by_episode
from questloop.judges import quest
from questloop.judges.ahead import Waypoint, choices

HELD_OUT_PAIRS = 1500
VALIDATION_PAIRS = 500
VALIDATION_SHARE = 0.1
GRPO_SHARE = 0.2


@dataclass(frozen=True)
class Parts:
    """The segments that a seed learns from, by episode: no episode is in two parts."""

    warm_start: list[OutcomeSegment]
    grpo: list[OutcomeSegment]
    """not shown in the warm start: what is known by heart gives GRPO nothing to learn from"""
    validation: list[OutcomeSegment]
    """for choosing between adapters"""


def read_segments(folder: Path) -> list[OutcomeSegment]:
    """The segments that `play.py` or `collect.py` wrote."""
    text = (folder / "segments.jsonl").read_text("utf-8")
    return [OutcomeSegment(**json.loads(line)) for line in text.splitlines()]


def read_states(folder: Path) -> list[JudgedState]:
    """The states that `play.py` wrote."""
    text = (folder / "states.jsonl").read_text("utf-8")
    return [JudgedState(**json.loads(line)) for line in text.splitlines()]


def the_guide() -> Guide:
    """Mossgrove's."""
    guide = profile_for(Rom.load(None)).guide
    assert guide is not None
    return guide


def places(guide: Guide) -> list[JudgedState]:
    """Every place of the guide at every stage of the quest, with what the rule-based judge says of it."""

    def scored(waypoint: Waypoint) -> JudgedState:
        score = quest.judge(guide.text, waypoint.text)["overall"]
        return JudgedState(waypoint.cell_id, waypoint.cell_id, waypoint.text, float(score or 0))

    return [scored(waypoint) for waypoint in choices(guide, len(guide.aims))]


def parts(segments: list[OutcomeSegment], seed: int) -> Parts:
    """Split what is played for training; the seed decides which episode is where."""
    rest, validation = split_by_episode(segments, VALIDATION_SHARE, seed)
    warm_start, grpo = split_by_episode(rest, GRPO_SHARE, seed)
    return Parts(warm_start, grpo, validation)


def pairs_of(segments: list[OutcomeSegment], count: int) -> list[tuple[OutcomeSegment, OutcomeSegment]]:
    """The pairs to be measured by, the same for every seed: the segment that a milestone followed first."""
    return sample_pairs(segments, count, random.Random(0))
