"""Measures how far a trained policy comes: whole episodes from one start state, without learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from questloop.env.game_env import GameEnv
from questloop.env.starts import Guidance
from questloop.episodes.boundary import ends_episode
from questloop.game.profiles import profile_in_force
from questloop.game.start_states import StartState, StartStates
from questloop.planner.client import Planner
from questloop.planner.takeover import Takeovers
from questloop.settings import GameSettings, RewardSettings
from questloop.training.player import Player


@dataclass(frozen=True)
class PlayedEpisode:
    """How an episode ended."""

    steps: int
    rooms: int
    milestones: tuple[str, ...]  # reached, in the profile's order


def play_episodes(
    player: Player,
    game: GameSettings,
    start: StartState,
    episodes: int,
    planner: Planner | None = None,
) -> list[PlayedEpisode]:
    """Play `episodes` side by side from `start`, each until the game is over or EPISODE_LENGTH is.

    Actions are drawn from the policy; `planner` takes over in dialogs and puzzles.
    """
    aims = player.led_by(profile_in_force(game).guide)
    env = GameEnv(episodes, game, RewardSettings.model_validate({}), starts=StartStates((start,)), aims=aims)
    env.follow(Guidance(aims=None if player.aims is None else tuple(player.aims)))
    takeovers = Takeovers(env, planner, game.frame_skip) if planner is not None else None
    obs = np.zeros((episodes, *env.observation_shape), np.float32)
    reward, boundary = np.zeros(episodes, np.float32), np.zeros(episodes, np.uint8)
    mask, modes = np.ones(episodes, np.bool_), np.zeros(episodes, np.uint8)
    played: dict[int, PlayedEpisode] = {}
    env.reset(obs)
    for step in range(1, game.episode_length + 1):
        action = player.act(obs)
        if takeovers is not None:
            takeovers.act(action, mask, modes)
        env.step(action, obs, reward, boundary)
        ended = np.flatnonzero(ends_episode(boundary))
        if not ended.size:
            continue
        if takeovers is not None:
            takeovers.ended(ended)
        report = env.report()
        for slot, rooms, reached in zip(
            ended.tolist(), report.finished_rooms, report.finished_milestones, strict=True
        ):
            names = tuple(env.profile.milestone_names(reached))
            played.setdefault(slot, PlayedEpisode(step, rooms, names))
        if len(played) == episodes:
            break
    if takeovers is not None:
        takeovers.close()
    env.close()
    return [played[slot] for slot in range(episodes)]
