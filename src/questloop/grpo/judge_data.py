"""Makes training data for judges: questions about segments with a known outcome, split by episode.

The outcome of a segment is what became of it afterwards; no question shows it. Episodes are either trained on
or held out, never both, so that a judge is measured on play that it has not seen.
"""

from __future__ import annotations

import hashlib
import json
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from questloop.errors import BadDataError
from questloop.grpo.data import Row
from questloop.grpo.judge_rewards import BAND_LABELS, FAR_LABELS, MILESTONE_LABELS, PAIR_LABELS
from questloop.grpo.judge_text import condense
from questloop.local_files import write_file


class Task(StrEnum):
    """What a judge is asked."""

    PAIR = "pair"  # which of two segments went further
    MILESTONE = "milestone"  # whether a new milestone followed
    BAND = "band"  # how far the play went on afterwards, in four bands
    NEARER = "nearer"  # which of two states is nearer to the end of the quest
    FAR = "far"  # how far along the quest a state is, in tenths


STATE_TASKS = (Task.NEARER, Task.FAR)
"""what judges of states are asked; the others are about segments"""


@dataclass(frozen=True)
class OutcomeSegment:
    """A segment with what became of it."""

    segment_id: str
    episode_id: str
    text: str
    """the summary that a judge reads"""
    outcome: bool
    """whether a new milestone followed soon"""
    progress: float | None = None
    """how far the play went on afterwards; only its order matters, and only bands need it"""


@dataclass(frozen=True)
class JudgedState:
    """A state with its score: what another judge, who read the game's guide, said of it."""

    cell_id: str
    episode_id: str
    """that in which it was first seen; its own id where nobody played it"""
    text: str
    score: float
    """how far along the quest, 0 to 1"""


@dataclass(frozen=True)
class JudgeDataset:
    """Questions to train on and to be measured by, and how they came about."""

    train: list[Row]
    held_out: list[Row]
    about: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write `train.jsonl`, `held_out.jsonl` and `about.json`; the folder is a `--dataset`."""
        for name, rows in (("train", self.train), ("held_out", self.held_out)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            write_file(folder / f"{name}.jsonl", text)
        write_file(folder / "about.json", json.dumps(self.about, indent=1))


_OPENING = "You judge play of a Game Boy adventure."
_SYSTEM = {
    Task.PAIR: f"{_OPENING} Which of the two segments, A or B, is more likely to be followed by a new "
    "milestone soon? Answer A or B.",
    Task.MILESTONE: f"{_OPENING} Will a new milestone follow soon after this segment? Answer yes or no.",
    Task.BAND: f"{_OPENING} How far will the play go on after this segment? "
    "Answer none, little, some or much.",
    Task.NEARER: "You judge states of a Game Boy adventure. Which of the two, A or B, is nearer to the end "
    "of the quest? Answer A or B.",
    Task.FAR: "You judge states of a Game Boy adventure. How many tenths of the quest are done? "
    "Answer 0 to 9.",
}
LABELS = {
    Task.PAIR: PAIR_LABELS,
    Task.MILESTONE: MILESTONE_LABELS,
    Task.BAND: BAND_LABELS,
    Task.NEARER: PAIR_LABELS,
    Task.FAR: FAR_LABELS,
}
_OF_TWO = (Task.PAIR, Task.NEARER)


def prompt(task: Task, *texts: str) -> list[dict[str, str]]:
    """The messages of a question about one segment or state, or two for a pair; summaries are condensed.

    >>> prompt(Task.PAIR, "first", "second")[1]["content"]
    'A:\\nfirst\\n\\nB:\\nsecond'
    """
    shown = [condense(text) for text in texts]
    content = f"A:\n{shown[0]}\n\nB:\n{shown[1]}" if task in _OF_TWO else shown[0]
    return [{"role": "system", "content": _SYSTEM[task]}, {"role": "user", "content": content}]


def build(
    segments: Sequence[OutcomeSegment],
    tasks: Sequence[Task] = (Task.PAIR, Task.MILESTONE),
    held_out_fraction: float = 0.25,
    pairs: int = 4000,
    held_out_pairs: int = 600,
    seed: int = 0,
    states: Sequence[JudgedState] = (),
) -> JudgeDataset:
    """Make questions of `segments` and `states`: at most `pairs` and `held_out_pairs` of each in pairs.

    Raises `BadDataError` saying what is missing where a split has no two different outcomes.
    """
    of_segments = [task for task in tasks if task not in STATE_TASKS]
    of_states = [task for task in tasks if task in STATE_TASKS]
    held_out_ids = _held_out([*segments, *states], held_out_fraction, seed)
    train, held_out = _parted(segments, held_out_ids)
    known, unseen = _parted(states, held_out_ids)
    edges = _band_edges(train) if Task.BAND in tasks else ()
    rng = random.Random(seed)
    splits = {}
    for name, part, some, limit in (
        ("train", train, known, pairs),
        ("held_out", held_out, unseen, held_out_pairs),
    ):
        if of_segments:
            _check_outcomes(name, part)
        if of_states and len({state.score for state in some}) < 2:
            raise BadDataError(f"the {name} split has no two judged cells that differ: judge more of them")
        rows = questions(part, of_segments, limit, rng, edges) + state_questions(some, of_states, limit, rng)
        rng.shuffle(rows)
        splits[name] = rows
    about = {
        "schema_version": 1,
        "seed": seed,
        "tasks": [task.value for task in tasks],
        "band_edges": list(edges),
        "segments": {"train": len(train), "held_out": len(held_out)},
        "states": {"train": len(known), "held_out": len(unseen)},
        "episodes": {"train": _episodes(train), "held_out": _episodes(held_out)},
        "followed_by_a_milestone": {
            "train": sum(segment.outcome for segment in train),
            "held_out": sum(segment.outcome for segment in held_out),
        },
        "questions": {name: dict(Counter(row["task"] for row in rows)) for name, rows in splits.items()},
    }
    return JudgeDataset(splits["train"], splits["held_out"], about)


def questions(
    segments: Sequence[OutcomeSegment],
    tasks: Sequence[Task],
    pairs: int,
    rng: random.Random,
    band_edges: Sequence[float] = (),
) -> list[Row]:
    """Questions about all of `segments`, at most `pairs` of them in pairs, in random order."""
    rows = [row for task in tasks for row in _questions(task, segments, pairs, band_edges, rng)]
    rng.shuffle(rows)
    return rows


def state_questions(
    states: Sequence[JudgedState], tasks: Sequence[Task], pairs: int, rng: random.Random
) -> list[Row]:
    """Questions about all of `states`, at most `pairs` of them in pairs, the nearer one as often A as B."""
    rows = []
    if Task.FAR in tasks:
        rows += [_row(Task.FAR, (state,), FAR_LABELS[_tenth(state.score, rng)]) for state in states]
    if Task.NEARER in tasks:
        order = sorted(states, key=lambda state: (state.score, state.cell_id))
        for number in range(pairs):
            a, b = sorted(rng.sample(range(len(order)), 2))
            behind, ahead = order[a], order[b]
            if behind.score == ahead.score:
                continue
            shown = (behind, ahead) if number % 2 else (ahead, behind)
            rows.append(_row(Task.NEARER, shown, PAIR_LABELS[number % 2]))
    return rows


def _tenth(score: float, rng: random.Random) -> int:
    """One of the two tenths whose middles are around a score, the nearer one more often: their mean is the
    score, so that a model that answers by its probabilities learns finer steps than tenths.

    >>> round(sum(_tenth(0.37, random.Random(seed)) + 0.5 for seed in range(2000)) / 20000, 2)
    0.37
    """
    place = min(max(10 * score - 0.5, 0.0), 9.0)
    return int(place) + (rng.random() < place - int(place))


def split_by_episode(
    segments: Sequence[OutcomeSegment], held_out_fraction: float, seed: int
) -> tuple[list[OutcomeSegment], list[OutcomeSegment]]:
    """Split so that every episode is on one side; which is decided by its id and the seed alone."""
    return _parted(segments, _held_out(segments, held_out_fraction, seed))


_Item = TypeVar("_Item", OutcomeSegment, JudgedState)


def _parted(items: Sequence[_Item], held_out: set[str]) -> tuple[list[_Item], list[_Item]]:
    train = [item for item in items if item.episode_id not in held_out]
    return train, [item for item in items if item.episode_id in held_out]


def _held_out(items: Sequence[OutcomeSegment | JudgedState], held_out_fraction: float, seed: int) -> set[str]:
    if not 0 < held_out_fraction < 1:
        raise ValueError(f"held_out_fraction {held_out_fraction} is not between 0 and 1")
    episodes = sorted({item.episode_id for item in items}, key=lambda episode: _rank(episode, seed))
    if len(episodes) < 2:
        raise BadDataError(f"{len(episodes)} episode(s) with known outcomes: holding one out needs 2 or more")
    count = min(len(episodes) - 1, max(1, round(held_out_fraction * len(episodes))))
    return set(episodes[:count])


def sample_pairs(
    segments: Sequence[OutcomeSegment], limit: int, rng: random.Random
) -> list[tuple[OutcomeSegment, OutcomeSegment]]:
    """Up to `limit` different pairs (further, less far), of segments whose outcomes differ."""
    good = [segment for segment in segments if segment.outcome]
    bad = [segment for segment in segments if not segment.outcome]
    chosen = rng.sample(range(len(good) * len(bad)), min(limit, len(good) * len(bad)))
    return [(good[index // len(bad)], bad[index % len(bad)]) for index in chosen]


def _questions(
    task: Task, segments: Sequence[OutcomeSegment], limit: int, edges: Sequence[float], rng: random.Random
) -> list[Row]:
    if task is Task.PAIR:
        pairs = sample_pairs(segments, limit, rng)
        return [
            _pair_row(better, worse, first=bool(index % 2)) for index, (better, worse) in enumerate(pairs)
        ]
    if task is Task.MILESTONE:
        return [_row(task, (segment,), MILESTONE_LABELS[0 if segment.outcome else 1]) for segment in segments]
    return [
        _row(task, (segment,), BAND_LABELS[bisect_right(edges, segment.progress)])
        for segment in segments
        if segment.progress is not None
    ]


def _pair_row(better: OutcomeSegment, worse: OutcomeSegment, first: bool) -> Row:
    shown = (better, worse) if first else (worse, better)
    return _row(Task.PAIR, shown, PAIR_LABELS[0 if first else 1])


def _row(task: Task, shown: Sequence[OutcomeSegment | JudgedState], answer: str) -> Row:
    ids = [item.segment_id if isinstance(item, OutcomeSegment) else item.cell_id for item in shown]
    return {
        "prompt": prompt(task, *(item.text for item in shown)),
        "answer": answer,
        "labels": list(LABELS[task]),
        "task": task.value,
        "segments": ids,
        "episodes": [item.episode_id for item in shown],
    }


def _band_edges(segments: Sequence[OutcomeSegment]) -> tuple[float, ...]:
    """Quartiles of the progress that was trained on; equal ones leave a band empty."""
    values = sorted(segment.progress for segment in segments if segment.progress is not None)
    if len(set(values)) < 2:
        raise BadDataError("bands need segments with different progress; leave the task out")
    return tuple(values[len(values) * quarter // 4] for quarter in (1, 2, 3))


def _check_outcomes(name: str, segments: Sequence[OutcomeSegment]) -> None:
    followed = sum(segment.outcome for segment in segments)
    if followed in (0, len(segments)):
        raise BadDataError(
            f"the {name} split has {len(segments)} segments, {followed} of them followed by a milestone: "
            "judges learn from differences; play more episodes or take another seed"
        )


def _rank(episode_id: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}\0{episode_id}".encode()).hexdigest()


def _episodes(segments: Sequence[OutcomeSegment]) -> int:
    return len({segment.episode_id for segment in segments})
