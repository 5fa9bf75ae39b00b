"""The table of a run: one row per epoch, read from the commits of its stages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from questloop.storage.commit import Commit, committed_epochs, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store


@dataclass(frozen=True)
class Row:
    """An epoch in one line. None: not measured (a stage that has not run, or too little data)."""

    epoch: int
    steps: int
    return_mean: float | None  # of finished episodes, unshaped
    return_per_1000_steps: float
    unique_rooms: int
    milestones: int  # different ones reached in the epoch
    shaping_weight: float
    judge_agreement: float | None  # Krippendorff's alpha between the judges
    judge_tau: float | None  # Kendall's tau-b of the weighted score against known outcomes
    reward_model_accuracy: float | None  # held-out pairs, against the judges
    gold_accuracy: float | None  # held-out pairs, against known outcomes
    trust: float | None  # states of held-out episodes before and after a milestone in the right order
    steps_per_second: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


COLUMNS = {
    "epoch": "epoch",
    "steps": "steps",
    "return_mean": "return",
    "return_per_1000_steps": "/1000",
    "unique_rooms": "rooms",
    "milestones": "miles",
    "shaping_weight": "shape",
    "judge_agreement": "alpha",
    "judge_tau": "tau",
    "reward_model_accuracy": "pairs",
    "trust": "trust",
    "steps_per_second": "steps/s",
}

LEGEND = (
    "return: mean of the episodes that ended, unshaped; /1000: reward per 1000 steps; miles: milestones "
    "reached; shape: weight of the earlier epochs' reward model; alpha: Krippendorff's, between the judges; "
    "tau: Kendall's tau-b of their score against whether a new milestone followed; pairs: share of held-out "
    "pairs that the reward model orders as the judges do; trust: share of states before and after a "
    "milestone of a held-out episode that it orders rightly, from which the weight follows."
)


def rows(store: Store) -> list[Row]:
    """Every epoch whose rollouts are committed, in order."""
    return [row(store, epoch) for epoch in committed_epochs(store, Stage.ROLLOUTS)]


def cells(row: Row) -> list[str]:
    """The row as text, in the order of `COLUMNS`."""
    return [_text(getattr(row, name)) for name in COLUMNS]


def row(store: Store, epoch: int) -> Row:
    """One epoch; its rollouts are committed."""
    played = _info(read_commit(store, epoch, Stage.ROLLOUTS))
    judged = _info(read_commit(store, epoch, Stage.EVALUATE))
    learned = _info(read_commit(store, epoch, Stage.REWARD_MODEL))
    reading = learned.get("readings", {}).get(learned.get("reading"), {})
    return Row(
        epoch=epoch,
        steps=played["step_end"] - played["step_start"],
        return_mean=played["return_mean"],
        return_per_1000_steps=played["return_per_1000_steps"],
        unique_rooms=played["unique_rooms"],
        milestones=sum(count > 0 for count in played["milestones"].values()),
        shaping_weight=played["shaping_weight"],
        judge_agreement=judged.get("alpha"),
        judge_tau=(judged.get("tau") or {}).get("tau"),
        reward_model_accuracy=(reading.get("judges") or {}).get("value"),
        gold_accuracy=(reading.get("gold") or {}).get("value"),
        trust=(reading.get("trust") or {}).get("value"),
        steps_per_second=played["steps_per_second"],
    )


def _info(commit: Commit | None) -> dict[str, Any]:
    return dict(commit.info) if commit is not None else {}


def _text(value: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
