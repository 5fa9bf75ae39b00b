"""What the steps share: the segments, and the held-out pairs of a seed."""

from __future__ import annotations

import json
from pathlib import Path

from questloop.grpo.judge_data import JudgeDataset, JudgedSegment, Task, build

PAIRS = 4000
HELD_OUT_PAIRS = 600


def read_segments(folder: Path) -> list[JudgedSegment]:
    """The segments that `collect.py` wrote."""
    text = (folder / "segments.jsonl").read_text("utf-8")
    return [JudgedSegment(**json.loads(line)) for line in text.splitlines()]


def dataset_of(segments: list[JudgedSegment], seed: int) -> JudgeDataset:
    """The questions of a seed, which also decides the held-out episodes."""
    return build(segments, (Task.PAIR, Task.MILESTONE), pairs=PAIRS, held_out_pairs=HELD_OUT_PAIRS, seed=seed)


def held_out_pairs(dataset: JudgeDataset) -> list[tuple[str, str]]:
    """Ids of the held-out pairs: the segment that went further first."""
    pairs = []
    for row in dataset.held_out:
        if row["task"] == Task.PAIR:
            first, second = row["segments"]
            pairs.append((first, second) if row["answer"] == "A" else (second, first))
    return pairs
