"""Scores a file of completions, to see what a reward does before a GPU is used."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from questloop.errors import BadDataError
from questloop.grpo.data import Row, check_columns, load_rows
from questloop.grpo.scoring import Reward, load_rewards


@dataclass(frozen=True)
class RewardSummary:
    """What one reward function gave over a file; `mean`, `low` and `high` are None if it always abstained."""

    name: str
    weight: float
    mean: float | None
    low: float | None
    high: float | None
    abstained: int
    seconds: float


@dataclass(frozen=True)
class RewardTrial:
    """Values by row and summaries by function; `totals` is the weighted sum, as in training."""

    rows: list[Row]
    values: dict[str, list[float | None]]
    totals: list[float | None]
    summaries: list[RewardSummary]

    @property
    def distinguishes(self) -> bool:
        """Whether the totals differ at all: GRPO learns from differences only."""
        return len({total for total in self.totals if total is not None}) > 1

    def to_json(self) -> dict[str, Any]:
        """Everything but the rows."""
        return {
            "rewards": [asdict(summary) for summary in self.summaries],
            "values": self.values,
            "totals": self.totals,
            "distinguishes": self.distinguishes,
        }


def try_rewards(
    file: str,
    names: Sequence[str],
    weights: Sequence[float] | None,
    timeout_s: float,
    limit: int | None = None,
) -> RewardTrial:
    """Score the rows of `file`, which have `completion`, may have `prompt`, and the columns of the rewards.

    `completion` is text or messages, as in training. Raises the errors of the reward and of the data.
    """
    rows = load_rows(file)[:limit]
    rewards = load_rewards(names, weights, timeout_s)
    needed = {column: f"the reward {reward.name}" for reward in rewards for column in reward.columns}
    check_columns(rows, {"completion": "every reward"} | needed, file)
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in ("prompt", "completion")}
    prompts = [row.get("prompt") or "" for row in rows]
    completions = [_completion(row["completion"], index, file) for index, row in enumerate(rows)]
    values, summaries = {}, []
    for reward in rewards:
        started = time.perf_counter()
        try:
            scores = reward(prompts=prompts, completions=completions, **columns)
        finally:
            reward.close()
        values[reward.name] = scores
        summaries.append(_summary(reward, scores, time.perf_counter() - started))
    return RewardTrial(rows, values, _totals(rewards, values), summaries)


def _completion(value: Any, index: int, file: str) -> Any:
    if isinstance(value, (str, list)):
        return value
    raise BadDataError(
        f"{file}: row {index}: column 'completion' is {type(value).__name__}, not text or messages"
    )


def _totals(rewards: Sequence[Reward], values: dict[str, list[float | None]]) -> list[float | None]:
    totals: list[float | None] = []
    for scores in zip(*(values[reward.name] for reward in rewards), strict=True):
        given = [
            reward.weight * score for reward, score in zip(rewards, scores, strict=True) if score is not None
        ]
        totals.append(sum(given) if given else None)
    return totals


def _summary(reward: Reward, scores: Sequence[float | None], seconds: float) -> RewardSummary:
    given = [score for score in scores if score is not None]
    return RewardSummary(
        name=reward.name,
        weight=reward.weight,
        mean=sum(given) / len(given) if given else None,
        low=min(given, default=None),
        high=max(given, default=None),
        abstained=len(scores) - len(given),
        seconds=seconds,
    )
