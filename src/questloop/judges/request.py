"""Prepares a segment for the judges, and builds the messages that a judge receives."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from questloop.episodes.reader import SegmentView
from questloop.judges import compress as compressing
from questloop.judges import contact_sheet as picturing
from questloop.judges.contact_sheet import Picture
from questloop.judges.rubric import MAX_REPLY_TOKENS, TEMPERATURE, Judge, fingerprint

PICTURE_TOKENS = 300
"""rough cost of a sheet; what a model really takes is in the summary"""


Load = Callable[[str], SegmentView]
"""reads a segment by its id"""


@dataclass(frozen=True)
class Case:
    """What judges get to know of a segment."""

    segment_id: str
    episode_id: str
    text: str
    pictures: tuple[Picture, ...]


def prepare(segment: SegmentView) -> Case:
    """Compress the states and choose the pictures."""
    summary = compressing.compress(segment.states)
    pictures = tuple(picturing.choose(segment, summary.events))
    return Case(segment.segment_id, segment.episode_id, summary.text, pictures)


def messages(judge: Judge, case: Case, images: bool) -> list[dict[str, Any]]:
    """The stable system message first, so that the prefix cache serves it; then the segment."""
    content: str | list[dict[str, Any]] = case.text
    sheet = picturing.sheet(case.pictures) if judge.pictures and images else None
    if sheet is not None:
        url = "data:image/png;base64," + base64.b64encode(sheet).decode()
        content = [
            {"type": "text", "text": case.text},
            {"type": "image_url", "image_url": {"url": url}},
        ]
    return [{"role": "system", "content": judge.prompt}, {"role": "user", "content": content}]


def content_hash(judge: Judge, case: Case, images: bool) -> str:
    """SHA-256, 32 hex digits, of what differs between the prompts of one judge."""
    digest = hashlib.sha256(case.text.encode())
    for picture in case.pictures if judge.pictures and images else ():
        digest.update(f"\0{picture.step} {picture.label}\0".encode())
        digest.update(picture.png)
    return digest.hexdigest()[:32]


def judge_fingerprint(judge: Judge, model: str, images: bool, votes: int, scorer: str) -> str:
    """Of everything but the segment that decides a judge's score.

    `scorer` is the version of a rule-based judge, empty for a language model.
    """
    return fingerprint(
        {
            "judge": judge.name,
            "model": model,
            "scorer": scorer,
            "prompt": judge.prompt,
            **({"reads": judge.reads} if judge.reads else {}),
            "schema": judge.schema,
            "votes": votes,
            "temperature": TEMPERATURE,
            "max_tokens": MAX_REPLY_TOKENS,
            "compress": [compressing.VERSION, compressing.TOKEN_BUDGET],
            "pictures": [picturing.VERSION, picturing.MAX_PICTURES] if judge.pictures and images else None,
        }
    )


def prompt_tokens(judge: Judge, cases: Sequence[Case], images: bool) -> float:
    """Mean prompt tokens per request, roughly."""
    fixed = compressing.estimate_tokens(judge.prompt)
    fixed += PICTURE_TOKENS if judge.pictures and images else 0
    return fixed + sum(compressing.estimate_tokens(case.text) for case in cases) / max(len(cases), 1)
