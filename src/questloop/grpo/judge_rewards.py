"""Rewards that teach a judge: the agreed form of a verdict, and agreement with the known outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from questloop.grpo.text import Completion, RewardFunction, text_of

PAIR_LABELS = ("A", "B")
BAND_LABELS = ("none", "little", "some", "much")
MILESTONE_LABELS = ("yes", "no")
FAR_LABELS = tuple("0123456789")  # tenths of the quest


def verdict(completion: Completion, labels: Sequence[str]) -> str | None:
    """The label that a completion consists of, but for case, white space and a full stop; else None.

    >>> verdict(" a.", PAIR_LABELS), verdict("A or B", PAIR_LABELS)
    ('A', None)
    """
    said = text_of(completion).strip().rstrip(".").lower()
    return next((label for label in labels if label.lower() == said), None)


def judge_format(
    completions: Sequence[Completion], labels: Sequence[Sequence[str]], **_: Any
) -> list[float | None]:
    """1 where the completion is one of the row's `labels` and nothing else.

    >>> judge_format(["A", "I think A"], labels=[["A", "B"], ["A", "B"]])
    [1.0, 0.0]
    """
    return [
        float(verdict(completion, allowed) is not None)
        for completion, allowed in zip(completions, labels, strict=True)
    ]


def judge_agreement(
    completions: Sequence[Completion], labels: Sequence[Sequence[str]], answer: Sequence[str], **_: Any
) -> list[float | None]:
    """1 where the verdict is the known outcome `answer`; of ordered labels a near miss earns a part.

    The part is 1 - distance / (number of labels - 1); with two labels there is none.

    >>> judge_agreement(["B", "well"], labels=[["A", "B"]] * 2, answer=["B", "B"])
    [1.0, 0.0]
    >>> bands = ["none", "little", "some", "much"]
    >>> judge_agreement(["some", "none"], labels=[bands] * 2, answer=["much", "much"])
    [0.6666666666666667, 0.0]
    """

    def score(completion: Completion, allowed: Sequence[str], gold: str) -> float:
        said = verdict(completion, allowed)
        if said is None:
            return 0.0
        distance = abs(allowed.index(said) - allowed.index(gold))
        return 1.0 - distance / (len(allowed) - 1)

    return [score(*row) for row in zip(completions, labels, answer, strict=True)]


JUDGE_REWARDS: dict[str, RewardFunction] = {
    "judge_format": judge_format,
    "judge_agreement": judge_agreement,
}
