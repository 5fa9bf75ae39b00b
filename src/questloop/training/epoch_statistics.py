"""Statistics of an epoch by slot: returns, lengths, rooms, milestones and trajectory hashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from questloop.env.slot_report import SlotReport
from questloop.episodes.boundary import ends_episode
from questloop.game.guide import place_name
from questloop.telemetry import metrics
from questloop.training.epoch_plan import CurvePoint
from questloop.training.rollout import Rollout

if TYPE_CHECKING:
    from questloop.planner.copilot import CopilotReport
    from questloop.training.algorithm import Update


_DRAWN = {each.name for each in fields(CurvePoint)}
"""What of an update's statistics its point keeps."""


class ReturnMeter:
    """Returns and lengths of episodes that outlive rollouts and epochs."""

    def __init__(self, slots: int) -> None:
        self.returns = np.zeros(slots)
        self.lengths = np.zeros(slots, np.int64)
        self.start_epoch()

    def start_epoch(self) -> None:
        """Forget the finished episodes, keep the running ones."""
        self.finished: list[tuple[float, int]] = []
        self.reward_sum = 0.0
        self.steps = 0

    def add(self, rollout: Rollout) -> None:
        """Take in `[T, N]` steps."""
        self.reward_sum += float(rollout.reward.sum(dtype=np.float64))
        self.steps += rollout.reward.size
        metrics.env_steps_total.inc(rollout.reward.size)
        ended = ends_episode(rollout.boundary)
        sums = rollout.reward.cumsum(axis=0, dtype=np.float64)
        taken = np.zeros_like(self.returns)
        since = np.zeros_like(self.lengths)
        for t, n in np.argwhere(ended):
            self.finished.append(
                (
                    float(self.returns[n] + sums[t, n] - taken[n]),
                    int(self.lengths[n] + t + 1 - since[n]),
                )
            )
            metrics.episode_return.observe(self.finished[-1][0])
            self.returns[n], self.lengths[n] = 0.0, 0
            taken[n], since[n] = sums[t, n], t + 1
        self.returns += sums[-1] - taken
        self.lengths += len(sums) - since

    @property
    def per_1000_steps(self) -> float:
        """Undiscounted reward per 1000 steps of this epoch."""
        return 1000 * self.reward_sum / max(1, self.steps)

    @property
    def best(self) -> float:
        """Highest return so far of any episode of this epoch."""
        return float(max([value for value, _ in self.finished] + self.returns.tolist()))

    def forget(self, slots: slice) -> None:
        """The episodes of `slots` were lost with their runner."""
        self.returns[slots] = 0
        self.lengths[slots] = 0

    def summary(self) -> dict[str, Any]:
        """The fields of an epoch's report that speak of returns and lengths."""
        returns = [value for value, _ in self.finished]
        lengths = [length for _, length in self.finished]
        return {
            "episodes_finished": len(self.finished),
            "return_mean": float(np.mean(returns)) if returns else None,
            "return_best": self.best,
            "return_running_mean": float(self.returns.mean()),
            "return_per_1000_steps": self.per_1000_steps,
            "episode_length_mean": float(np.mean(lengths)) if lengths else None,
        }

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The running episodes."""
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on with the running episodes of `state_dict`."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]


class RoomMeter:
    """Rooms and milestones of an epoch; empty for environments that have none."""

    def __init__(self) -> None:
        self.start_epoch()

    def start_epoch(self) -> None:
        """Forget everything but what running episodes report again."""
        self.room_steps: Counter[int] = Counter()
        self.tile_steps: Counter[int] = Counter()
        self.aim_steps: Counter[str] = Counter()
        self.finished_rooms: list[int] = []
        self.finished_milestones: list[int] = []
        self.running: dict[int, SlotReport] = {}

    def add(self, runner: int, report: SlotReport) -> None:
        """Take in what a runner's environment saw in a rollout."""
        self.room_steps.update(report.room_steps)
        self.tile_steps.update(report.tile_steps)
        self.aim_steps.update(report.aim_steps)
        for rooms in report.finished_rooms:
            metrics.unique_rooms_per_episode.observe(rooms)
        self.finished_rooms += report.finished_rooms
        self.finished_milestones += report.finished_milestones
        self.running[runner] = report

    def visits(self) -> dict[str, int]:
        """Steps spent in every room, by `group:room` as in the states' JSON."""
        return _named(self.room_steps)

    def tiles(self) -> dict[str, str]:
        """Metatiles of every room and the steps spent on each, one after the other.

        As text, since a reader of many commits parses a list of thousands of numbers ten times as long.
        """
        found: dict[str, list[str]] = {}
        for place, steps in sorted(self.tile_steps.items()):
            found.setdefault(place_name(place >> 8), []).append(f"{place & 255} {steps}")
        return {room: " ".join(pairs) for room, pairs in found.items()}

    def aims(self) -> dict[str, float] | None:
        """Share of steps with each aim of the guide before them; None without a guide."""
        total = self.aim_steps.total()
        return {key: round(steps / total, 4) for key, steps in self.aim_steps.items()} if total else None

    def places(self) -> dict[str, float]:
        """Where the agents are now: the share of the latest rollout's steps in every room."""
        now: Counter[int] = Counter()
        for report in self.running.values():
            now.update(report.room_steps)
        return {room: round(steps / now.total(), 4) for room, steps in _named(now).items()}

    @property
    def rooms_per_episode(self) -> float:
        """Mean number of rooms over finished and running episodes."""
        rooms = list(self.finished_rooms)
        for report in self.running.values():
            rooms += report.rooms.tolist() if report.rooms is not None else []
        return float(np.mean(rooms)) if rooms else 0.0

    @property
    def milestones_per_episode(self) -> float:
        """Mean number of milestones over finished and running episodes."""
        masks = self._masks()
        return sum(mask.bit_count() for mask in masks) / len(masks) if masks else 0.0

    def milestone_counts(self, names: tuple[str, ...]) -> dict[str, int]:
        """Episodes that reached each milestone, by name."""
        masks = self._masks()
        return {name: sum(mask >> bit & 1 for mask in masks) for bit, name in enumerate(names)}

    def _masks(self) -> list[int]:
        masks = list(self.finished_milestones)
        for report in self.running.values():
            masks += report.milestones.tolist() if report.milestones is not None else []
        return masks


def chain_hashes(previous: list[str], rollout: Rollout) -> list[str]:
    """One hash per slot of what it saw and did, chained to the hash of its earlier rollouts."""
    return [
        sha256(
            bytes.fromhex(digest)
            + np.ascontiguousarray(rollout.obs[:, n]).data
            + rollout.action[:, n].tobytes()
        ).hexdigest()
        for n, digest in enumerate(previous)
    ]


class Averages:
    """Means over the updates of an epoch, by name."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, statistics: dict[str, float]) -> None:
        """Take in the statistics of an update."""
        for name, value in statistics.items():
            self._values.setdefault(name, []).append(value)

    def mean(self, name: str) -> float | None:
        """The mean of a statistic; None where no update had it."""
        values = self._values.get(name)
        return float(np.mean(values)) if values else None

    def means(self) -> dict[str, float]:
        """All of them."""
        return {name: float(np.mean(values)) for name, values in self._values.items()}


@dataclass
class EpochTally:
    """What is counted while an epoch runs."""

    step: int
    updates: int = 0
    runners_lost: int = 0
    curve: list[CurvePoint] = field(default_factory=list)
    milestone_steps: dict[str, int] = field(default_factory=dict)  # at which each was first reached
    rooms: RoomMeter = field(default_factory=RoomMeter)
    losses: Averages = field(default_factory=Averages)
    copilots: dict[str, CopilotReport] = field(default_factory=dict)

    def add(
        self, update: Update, milestones: tuple[str, ...], ended: Sequence[tuple[float, int]] = ()
    ) -> None:
        """Count an update whose samples `rooms` and `copilots` have taken in.

        `ended`: return and length of the episodes that ended in it.
        """
        self.step += update.rollout.action.size
        self.updates += 1
        self.runners_lost += len(update.lost)
        self.losses.add(update.statistics)
        for name, episodes in self.rooms.milestone_counts(milestones).items():
            if episodes:
                self.milestone_steps.setdefault(name, self.step)
        self.curve.append(self._point(update, ended))

    def _point(self, update: Update, ended: Sequence[tuple[float, int]]) -> CurvePoint:
        seconds = update.sample_seconds + update.learn_seconds
        figures: dict[str, float] = {
            "return_per_1000_steps": 1000 * float(update.rollout.reward.mean(dtype=np.float64)),
            "unique_rooms_per_episode": self.rooms.rooms_per_episode,
            "milestones_per_episode": self.rooms.milestones_per_episode,
            **{name: value for name, value in update.statistics.items() if name in _DRAWN},
        }
        if ended:
            figures["episode_return"] = float(np.mean([value for value, _ in ended]))
            figures["episode_length"] = float(np.mean([length for _, length in ended]))
        if seconds > 0:
            figures["steps_per_second"] = update.rollout.action.size / seconds
        return CurvePoint(self.step, **{name: _rounded(value) for name, value in figures.items()})

    def summary(self, milestones: tuple[str, ...]) -> dict[str, Any]:
        """The fields of an epoch's report that are counted here."""
        copilots = {name: report.to_json() for name, report in self.copilots.items()}
        return {
            "updates": self.updates,
            "runners_lost": self.runners_lost,
            "unique_rooms": len(self.rooms.room_steps),
            "unique_rooms_per_episode": self.rooms.rooms_per_episode,
            "milestones": self.rooms.milestone_counts(milestones),
            "milestone_steps": self.milestone_steps,
            "room_visits": self.rooms.visits(),
            "tiles": self.rooms.tiles(),
            "curve": tuple(self.curve),
            "losses": self.losses.means(),
            "curiosity_mean": self.losses.mean("curiosity_mean"),
            "shaping_mean": self.losses.mean("shaping_mean"),
            "planner": copilots.get("takeovers"),
            "hints": copilots.get("hints"),
            "aims": self.rooms.aims(),
        }


def _named(steps: Mapping[int, int]) -> dict[str, int]:
    return {place_name(place): count for place, count in sorted(steps.items())}


def _rounded(value: float) -> float:
    """Six digits that matter: a curve is written with every look at the run."""
    return float(f"{value:.6g}")
