"""Where episodes start: archive, curriculum and the game's own beginning."""

import numpy as np
import pytest

from questloop.env.game_env import GameEnv
from questloop.env.starts import Guidance, Starter, curriculum_starts, game_starts
from questloop.env.streams import slot_streams
from questloop.env.world import game_world
from questloop.exploration.archive import Archive
from questloop.exploration.curriculum import Curriculum
from questloop.settings import load

N, LENGTH = 4, 240


def make(archive_fraction=0.0, starts=None):
    settings = load(flags={"episode_length": LENGTH})
    env = GameEnv(N, settings.game, settings.rewards, starts=starts, archive_fraction=archive_fraction)
    env.seed(slot_streams(0, 0, N))
    env.reset(np.zeros((N, 128), np.float32))
    return env


def play(env, steps):
    rng = np.random.default_rng(0)
    obs, reward, boundary = np.zeros((N, 128), np.float32), np.zeros(N, np.float32), np.zeros(N, np.uint8)
    total = 0.0
    for step in range(steps):
        if step % 12 == 0:
            action = rng.integers(0, 4, N).astype(np.uint8)
        env.step(action, obs, reward, boundary)
        total += float(reward.sum())
    return total


def test_the_archive_fills_and_episodes_start_from_its_cells():
    env = make(archive_fraction=1.0)
    archive = Archive()
    play(env, LENGTH)
    assert env.report().finished_starts == ["start"] * N
    for _ in range(4):
        play(env, LENGTH)
        report = env.report()
        archive.merge([report.delta])
        env.follow(Guidance(archive=archive))
    assert archive.probabilities()
    play(env, LENGTH)
    starts = env.report().finished_starts
    assert any(start.startswith("archive-g") for start in starts)
    env.close()


def test_what_an_archived_state_owns_and_saw_pays_nothing():
    """The state right after the sword: no reward for it, and the return it was reached with goes on."""
    settings = load(flags={"curriculum": True})
    world = game_world(settings)
    states = world.build.keywords["starts"]
    state = states.named("sword_1").state
    archive = Archive()
    env = make(archive_fraction=1.0)
    env.starter._explorer.keep("g0-r00-k0-m1", 7.5, state)
    archive.merge([env.report().delta])
    env.follow(Guidance(archive=archive))
    env.reset(np.zeros((N, 128), np.float32))
    assert env._recorder.names(np.arange(N)) == ["archive-g0-r00-k0-m1"] * N
    assert env._raw_return.tolist() == [7.5] * N
    play(env, 8)
    assert env.rewards.parts[:, env.rewards.names.index("sword")].max() == 0
    assert not env.report().milestones.any()
    env.close()


def test_the_curriculum_names_the_start():
    settings = load(flags={"curriculum": True})
    world = game_world(settings)
    curriculum = Curriculum(world.starts)
    curriculum.stage = len(world.starts) - 1
    starter = Starter(1, world.build.keywords["starts"])
    starter.follow(Guidance(curriculum=curriculum))
    rng = np.random.default_rng(0)
    chosen = [starter.choose(rng).name for _ in range(40)]
    assert set(chosen) <= set(world.starts)
    assert chosen.count(world.starts[-1]) >= 10


def test_a_curriculum_without_states_is_refused(tmp_path):
    settings = load()
    rom, profile, _ = game_world(settings).recording
    with pytest.raises(Exception, match="questloop states capture"):
        curriculum_starts(game_starts(settings.game, rom, profile), profile)
