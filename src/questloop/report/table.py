"""The table of a run: one row per epoch, read from the commits of its stages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from questloop.storage.commit import Commit, committed_epochs, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store


@dataclass(frozen=True)
class Row:
    """An epoch in one line. None: not measured (a stage that has not run, or too little data)."""

    epoch: int
    steps: int
    milestones_per_episode: float | None  # over the episodes that the epoch touched, finished or not
    milestone_shares: dict[str, float]  # of the same episodes, 0..1, by key, in the game's order
    milestones: int  # different ones reached in the epoch
    unique_rooms: int
    return_mean: float | None  # of finished episodes, unshaped
    return_per_1000_steps: float
    shaping_weight: float
    shaping_reason: str  # why the weight is so
    judged_stages: int  # of the quest, at which judges said where to go; 0: none, or they are not asked
    judge_agreement: float | None  # Krippendorff's alpha between the judges
    judge_tau: float | None  # Kendall's tau-b of the weighted score against known outcomes
    reward_model_accuracy: float | None  # held-out pairs, against the judges
    gold_accuracy: float | None  # held-out pairs, against known outcomes
    trust: float | None  # states of held-out episodes before and after a milestone in the right order
    steps_per_second: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Heading(NamedTuple):
    """How a figure of a row is called and written, wherever it is shown."""

    title: str
    note: str = ""  # what a title cannot say
    share: bool = False  # written in percent
    whole: bool = False  # written without decimals


FIGURES = {
    "epoch": Heading("epoch"),
    "milestones_per_episode": Heading("milestones per episode", "mean of the episodes played"),
    "milestones": Heading("different milestones", "reached by any episode"),
    "unique_rooms": Heading("different rooms", "entered by any episode"),
    "return_mean": Heading("return per episode", "the game's reward alone, mean"),
    "return_per_1000_steps": Heading("reward per 1,000 steps", "the game's alone"),
    "shaping_weight": Heading("weight of shaping", "how much the reward model counted, from 0 to 1"),
    "judge_agreement": Heading("judges' agreement (alpha)", "1: perfect; near 0: chance, or play is alike"),
    "judge_tau": Heading("judges' foresight (tau)", "milestones follow high scores: 1 always, 0 by chance"),
    "reward_model_accuracy": Heading(
        "reward model agrees with judges", "pairs it did not learn from", share=True
    ),
    "trust": Heading("reward model orders milestones", "the moment after above the one before", share=True),
    "steps": Heading("steps"),
    "steps_per_second": Heading("steps per second", "playing and learning", whole=True),
}
"""The figures of `Row` that tables show, in their order."""


def rows(store: Store) -> list[Row]:
    """Every epoch whose rollouts are committed, in order."""
    return [row(store, epoch) for epoch in committed_epochs(store, Stage.ROLLOUTS)]


def cells(row: Row) -> list[str]:
    """The row as text, in the order of `FIGURES`."""
    return [text(name, row) for name in FIGURES]


def text(name: str, row: Row) -> str:
    """A figure of `FIGURES` as every table writes it; a dash where it is not known."""
    value = getattr(row, name)
    if value is None:
        return "–"
    if FIGURES[name].share:
        return f"{value:.1%}"
    whole = FIGURES[name].whole or isinstance(value, int) or abs(value) >= 100
    return f"{value:z,.0f}" if whole else f"{value:z.2f}"


def row(store: Store, epoch: int) -> Row:
    """One epoch; its rollouts are committed."""
    return row_of(epoch, *(_info(read_commit(store, epoch, stage)) for stage in Stage))


def row_of(epoch: int, played: dict[str, Any], judged: dict[str, Any], learned: dict[str, Any]) -> Row:
    """One epoch by what its stages report; empty where one is not committed."""
    reading = learned.get("readings", {}).get(learned.get("reading"), {})
    shares = _milestone_shares(played)
    return Row(
        epoch=epoch,
        steps=played["step_end"] - played["step_start"],
        milestones_per_episode=sum(shares.values()) if shares else None,
        milestone_shares=shares,
        milestones=sum(count > 0 for count in played["milestones"].values()),
        unique_rooms=played["unique_rooms"],
        return_mean=played["return_mean"],
        return_per_1000_steps=played["return_per_1000_steps"],
        shaping_weight=played["shaping_weight"],
        shaping_reason=played.get("shaping_reason", ""),
        judged_stages=len(played.get("judged_aims") or ()),
        judge_agreement=judged.get("alpha"),
        judge_tau=(judged.get("tau") or {}).get("tau"),
        reward_model_accuracy=(reading.get("judges") or {}).get("value"),
        gold_accuracy=(reading.get("gold") or {}).get("value"),
        trust=(reading.get("trust") or {}).get("value"),
        steps_per_second=played["steps_per_second"],
    )


def _info(commit: Commit | None) -> dict[str, Any]:
    return dict(commit.info) if commit is not None else {}


def _milestone_shares(played: dict[str, Any]) -> dict[str, float]:
    """Empty where it is not known how many episodes there were: those that ended, and one in every slot."""
    episodes = played.get("episodes_finished", 0) + len(played.get("trajectory_hashes", ()))
    return {name: count / episodes for name, count in played["milestones"].items()} if episodes else {}
