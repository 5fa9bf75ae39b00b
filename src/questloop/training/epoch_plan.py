"""What an epoch is asked to do, and what it reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from questloop.storage.store import StoredObject


@dataclass(frozen=True)
class EpochPlan:
    """One epoch of a run, as the pipeline orders it.

    `step_end - step_start` steps are collected, rounded up to whole vector steps; the next plan begins at the
    `step_end` that the report names.
    """

    run: str
    epoch: int
    fence: int
    seed: int
    step_start: int
    step_end: int
    reward_model_sha256: str | None = None
    aims: tuple[int, ...] | None = None
    """places that judges would go to (`judges.ahead.chosen_places`), used while the reward model is trusted;
    None: they are not asked"""


@dataclass(frozen=True)
class CurvePoint:
    """An update in numbers. None: the update had none; releases before kept the first four alone."""

    step: int  # of the run, at its end
    return_per_1000_steps: float  # unshaped, of the update's own steps
    unique_rooms_per_episode: float  # of the epoch so far
    entropy: float  # of the policy, nats
    milestones_per_episode: float | None = None  # of the epoch so far
    episode_return: float | None = None  # unshaped, mean of the episodes that ended in the update
    episode_length: float | None = None  # steps, of the same
    policy_loss: float | None = None  # clipped surrogate, mean over the minibatches
    vf_loss: float | None = None
    curiosity_loss: float | None = None  # of RND's predictor
    kl: float | None = None  # of the policy before and after, nats
    clip_fraction: float | None = None  # share of steps whose ratio was clipped
    explained_variance: float | None = None  # of the critic, before the update; 1 is perfect
    curiosity_mean: float | None = None  # intrinsic reward a step
    shaping_mean: float | None = None  # shaping reward a step
    steps_per_second: float | None = None  # sampling and learning of the update


@dataclass(frozen=True)
class EpochProgress:
    """Where a running epoch stands; sent after every update."""

    epoch: int
    step_start: int
    step: int  # of the run
    step_end: int
    steps_per_second: float
    episodes: int  # finished in this epoch
    return_per_1000_steps: float
    unique_rooms: int
    places: dict[str, float] = field(default_factory=dict)  # room -> share of the agents
    room_visits: dict[str, int] = field(default_factory=dict)  # steps of the epoch so far in every room
    curve: tuple[CurvePoint, ...] = ()  # of the epoch so far, one per update
    curriculum: dict[str, Any] | None = None


Progress = Callable[[EpochProgress], None]


@dataclass(frozen=True)
class EpochReport:
    """An epoch in numbers. Every number is finite; what does not exist is None.

    Returns are the environment's own: without shaping, without curiosity, not discounted.
    """

    run: str
    epoch: int
    step_start: int
    step_end: int
    seconds: float
    steps_per_second: float
    updates: int
    runners_lost: int
    runners: int
    slots: int  # environments, those of all runners

    episodes_finished: int
    return_mean: float | None  # of finished episodes
    return_best: float  # of finished and running episodes, so far in each
    return_running_mean: float  # of the episodes that go on, so far in each
    return_per_1000_steps: float  # of every step of the epoch: comparable also while no episode ends
    episode_length_mean: float | None
    unique_rooms: int  # of the epoch, all slots together
    unique_rooms_per_episode: float  # mean over the episodes that were played in this epoch
    milestones: dict[str, int]  # episodes of this epoch that have reached each, by key
    milestone_steps: dict[str, int]  # step of the run by which an episode had first reached each, this epoch
    room_visits: dict[str, int]  # steps spent in every room entered, by `group:room`
    tiles: dict[str, str]  # by room: metatile (16 * row + column), steps on it, the next metatile, ...
    curve: tuple[CurvePoint, ...]  # one per update

    losses: dict[str, float]  # means over the updates: policy_loss, vf_loss, entropy, kl, clip_fraction, ...
    curiosity_mean: float | None  # mean intrinsic reward
    shaping_mean: float | None  # mean shaping reward
    shaping_weight: float
    shaping_reason: str
    reward_model_sha256: str | None

    archive_cells: int | None  # cells known to the archive; None: it is off
    curriculum: dict[str, Any] | None  # stage, its start and its goal; None: it is off

    planner: dict[str, Any] | None  # takeovers by outcome, steps and plans; None: it is off
    hints: dict[str, Any] | None  # hints by what became of them, and targets reached; None: off

    aims: dict[str, float] | None  # share of steps with each aim of the guide before them; None: off
    judged_aims: dict[str, str] | None  # room that judges led to, by key of the aim; None: they are not asked

    trajectory_hashes: tuple[str, ...]  # one per slot: observations and actions of the whole run so far
    segments: int = 0  # exported
    segments_completed: int = 0
    pngs: int = 0
    cells: int = 0  # first seen in the epoch
    episodes: tuple[str, ...] = ()  # ids of the episodes whose `episode.json` was written
    objects: tuple[StoredObject, ...] = field(default=(), repr=False)  # everything written, for the commit

    def to_json(self) -> dict[str, Any]:
        """All fields but `objects`, as JSON values."""
        document = {name: value for name, value in asdict(self).items() if name != "objects"}
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
        return plain
