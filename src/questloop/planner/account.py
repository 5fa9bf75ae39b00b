"""What a takeover did: the plans it played, what became of each, and the steps it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class PlanAccount:
    """A plan that was asked for; one that was refused has no macros."""

    step: int  # of the takeover, at which it was asked for
    source: str  # the rules or the model that answered
    reason: str = ""
    macros: tuple[str, ...] = ()
    played: int = 0  # macros that were played to their end
    ended: str = ""  # "done", why not, or empty where the takeover ended first


@dataclass
class TakeoverAccount:
    """A takeover from its first step to its outcome."""

    mode: str
    room: str  # "4:1f"
    steps: int = 0  # of the episode, those that the game stood still for a plan included
    outcome: str = ""
    plans: list[PlanAccount] = field(default_factory=list)


@dataclass(frozen=True)
class Ended:
    """A takeover that is over: its first step is episode step `[row, slot] + past - account.steps`."""

    slot: int
    row: int  # steps of every slot since the last report
    past: int  # 1: row is its last step, 0: row is the first one after it
    account: TakeoverAccount

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Ended:
        account = dict(document["account"])
        plans = [PlanAccount(**plan | {"macros": tuple(plan["macros"])}) for plan in account.pop("plans")]
        return cls(**document | {"account": TakeoverAccount(**account, plans=plans)})
