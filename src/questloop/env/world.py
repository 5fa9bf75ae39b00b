"""Describes what is played: how runners build the environment, and what the trainer must know about it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gymnasium as gym
import numpy as np

from questloop.env.batch_env import BatchEnv
from questloop.env.observers import AIMED, HINTED, VECTOR, VISUAL
from questloop.env.starts import curriculum_starts, game_starts
from questloop.env.visual import SHAPE
from questloop.errors import UsageError
from questloop.game.observation import OBSERVATION_SIZE, OBSERVATION_VERSION
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import waits_at_title
from questloop.rewards.aims import AIM_SIZE, Aims, aims_in_force, lead
from questloop.rewards.hints import HINT_SIZE, HintTargets
from questloop.rewards.total import Rewards
from questloop.setting_types import AimsOf
from questloop.settings import Observation, RewardSettings, Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class World:
    """`build(n)` makes `n` slots; it is sent to runner processes, so it holds values only."""

    name: str
    build: Callable[[int], BatchEnv]
    observation_space: gym.Space
    action_space: gym.Space
    observation_version: int  # of the vectors, which reward models read
    policy_version: str  # of what the policy sees, which checkpoints depend on
    action_mask: tuple[bool, ...] | None = None  # actions that the policy may take; None: all
    lead: list[list[float]] | None = None  # what the observation's last numbers add to logits
    milestones: tuple[str, ...] = ()
    rewards: tuple[str, ...] = ()  # names of the reward's parts
    starts: tuple[str, ...] = ()  # the curriculum's, in order of play; empty: it is off
    plays_by_plan: bool = False  # a planner takes over; the environment is a `planner.takeover.Game`
    sees_more: bool = False  # than the vector: pictures, or where a hint or an aim points
    aims: tuple[str, ...] = ()  # of the guide, in their order
    hint_interval: int = 0  # steps between hints, 0: none; the environment is a `planner.hints.HintedGame`
    recording: tuple[Rom, Profile, int] | None = None  # what segments are of; None: nothing is recorded


_VECTOR_SPACE = gym.spaces.Box(-1.0, 1.0, (OBSERVATION_SIZE,), np.float32)
_HINTED_SPACE = gym.spaces.Box(-1.0, 1.0, (OBSERVATION_SIZE + HINT_SIZE,), np.float32)
_AIMED_SPACE = gym.spaces.Box(-1.0, 1.0, (OBSERVATION_SIZE + AIM_SIZE,), np.float32)
_VISUAL_SPACE = gym.spaces.Box(0, 255, SHAPE, np.uint8)


def game_world(settings: Settings) -> World:
    """The game of `settings`, with its rewards."""
    from questloop.env.game_env import GameEnv

    rom = Rom.load(settings.game.rom_path)
    profile = profile_for(rom, settings.game.guide, settings.game.game_profile)
    exploration = settings.exploration
    visual = settings.training.observation is Observation.VISUAL
    hinted = exploration.hint_interval > 0
    aims = aims_in_force(exploration, profile.guide)
    if visual and hinted:
        raise UsageError("HINT_INTERVAL needs OBSERVATION=vector: a visual policy sees no hints")
    waits = waits_at_title(rom, profile, settings.game.start_states)
    if waits:
        logger.warning("%s", waits)
    space, version = _VECTOR_SPACE, VECTOR
    if visual:
        space, version = _VISUAL_SPACE, VISUAL
    elif hinted:
        space, version = _HINTED_SPACE, HINTED
    elif aims is not AimsOf.OFF:
        space, version = _AIMED_SPACE, AIMED
    starts = game_starts(settings.game, rom, profile, exploration.curriculum)
    return World(
        name=profile.name,
        build=partial(
            GameEnv,
            game=settings.game,
            rewards=settings.rewards,
            png_stride=settings.store.png_stride,
            starts=starts,
            archive_fraction=exploration.archive_fraction,
            visual=visual,
            hinted=hinted,
            aims=aims,
            shaping=exploration.shaping,
            gamma=settings.training.gamma,
        ),
        observation_space=space,
        action_space=gym.spaces.Discrete(len(profile.action_mask)),
        action_mask=tuple(profile.action_mask.tolist()),
        lead=lead().tolist() if space is _AIMED_SPACE else None,
        observation_version=OBSERVATION_VERSION,
        policy_version=version,
        milestones=tuple(milestone.key for milestone in profile.milestones),
        rewards=reward_names(hinted, aims is not AimsOf.OFF),
        sees_more=space is not _VECTOR_SPACE,
        starts=curriculum_starts(starts, profile) if exploration.curriculum else (),
        plays_by_plan=exploration.planner,
        hint_interval=exploration.hint_interval,
        aims=() if profile.guide is None else tuple(aim.key for aim in profile.guide.aims),
        recording=(rom, profile, settings.game.frame_skip),
    )


def reward_names(hinted: bool, aimed: bool) -> tuple[str, ...]:
    """Names of the reward's parts, in their order."""
    pointer = HintTargets.names if hinted else Aims.names if aimed else ()
    return (*Rewards(1, RewardSettings.model_validate({})).names, *pointer)
