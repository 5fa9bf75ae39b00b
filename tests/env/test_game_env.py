"""The composed environment on the bundled game."""

import numpy as np
import pytest

from questloop.env.game_env import GameEnv
from questloop.env.streams import slot_streams
from questloop.episodes.boundary import Boundary
from questloop.game.actions import Action
from questloop.setting_types import AimsOf, Shaping
from questloop.settings import load

N, LENGTH = 3, 25


def make(**values):
    settings = load(flags={"episode_length": LENGTH} | values)
    env = GameEnv(N, settings.game, settings.rewards, png_stride=5)
    env.seed(slot_streams(0, 0, N))
    return env


@pytest.fixture
def env():
    env = make()
    yield env
    env.close()


def play(env, actions, obs=None):
    """Steps of `env` as arrays [T, N, ...]."""
    rows = []
    for action in actions:
        obs = np.zeros((N, 128), np.float32)
        reward, boundary = np.zeros(N, np.float32), np.zeros(N, np.uint8)
        env.step(action, obs, reward, boundary)
        rows.append((obs, reward, boundary))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def random_actions(steps, seed=0):
    return np.random.default_rng(seed).integers(0, 8, (steps, N)).astype(np.uint8)


def start(env):
    obs = np.zeros((N, 128), np.float32)
    env.reset(obs)
    return obs


def test_a_truncated_episode_keeps_its_final_observation_and_begins_anew(env):
    first = start(env)
    obs, _, boundary = play(env, random_actions(LENGTH))
    assert (boundary[:-1] == Boundary.NONE).all()
    assert (boundary[-1] == Boundary.TRUNCATED).all()
    np.testing.assert_array_equal(obs[-1], first)
    assert not np.array_equal(env.final_obs, first)
    report = env.report()
    assert len(report.finished_rooms) == N


def test_the_goal_terminates(env):
    start(env)
    bit = [milestone.key for milestone in env.profile.milestones].index("essence_1")
    env._goal = np.uint64(1 << bit)
    tap = next(tap for tap in env.profile.layout.taps if tap.name == "essences")
    env.batch.emulators[0].poke(tap.address, bytes([1]))
    _, _, boundary = play(env, random_actions(1))
    assert boundary[0].tolist() == [Boundary.TERMINATED, 0, 0]
    assert env.report().finished_milestones == [1 << bit]


def test_the_same_actions_give_the_same_observations_and_rewards(env):
    other = make()
    start(env)
    start(other)
    actions = random_actions(40)
    for mine, theirs in zip(play(env, actions), play(other, actions), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    other.close()


def test_going_on_from_a_state_equals_going_on(env):
    start(env)
    play(env, random_actions(31))
    state = env.state_dict()
    other = make()
    other.load_state_dict(state)
    seen = np.zeros((N, 128), np.float32)
    other.observe(seen)
    env.observe(mine := np.zeros((N, 128), np.float32))
    np.testing.assert_array_equal(seen, mine)
    actions = random_actions(40, seed=1)
    for straight, resumed in zip(play(env, actions), play(other, actions), strict=True):
        np.testing.assert_array_equal(straight, resumed)
    other.close()


def test_what_stands_still_is_recorded_without_a_picture(env):
    start(env)
    env.batch.paused.add(0)
    env.start_trace(2)
    play(env, random_actions(2))
    env.batch.paused.clear()
    trace = env.trace()
    np.testing.assert_array_equal(trace.taps[0, 0], trace.taps[1, 0])
    assert {slot for _, slot in trace.frames} == {1, 2}


def test_what_stands_still_earns_nothing():
    """The discounted change of a potential that stays is not 0, but here no time passes."""
    settings = load(flags={"episode_length": 500})
    env = GameEnv(N, settings.game, settings.rewards, aims=AimsOf.GUIDE, shaping=Shaping.POTENTIAL)
    env.seed(slot_streams(0, 0, N))
    obs, reward, boundary = (np.zeros((N, 132), np.float32), np.zeros(N, np.float32), np.zeros(N, np.uint8))
    env.reset(obs)
    while not env.aims.state_dict()["phi"].all():
        env.step(np.full(N, Action.A, np.uint8), obs, reward, boundary)
    env.batch.paused.add(0)
    for _ in range(3):
        env.step(np.full(N, Action.NOP, np.uint8), obs, reward, boundary)
        assert reward[0] == 0
        assert not env.rewards.parts[0].any()
        assert reward[1:].all()
    env.close()


def test_traces_are_written_in_one_place(env):
    """New memory for each would cost more than recording does."""
    start(env)
    found = []
    for _ in range(2):
        env.start_trace(LENGTH)
        play(env, random_actions(LENGTH))
        trace = env.trace()
        assert trace.frames
        found.append((trace.taps, trace.frames[0, 0]))
    assert all(np.shares_memory(*arrays) for arrays in zip(*found, strict=True))


def test_a_trace_shows_each_step_before_any_reset(env):
    start(env)
    env.start_trace(LENGTH + 3)
    obs, reward, boundary = play(env, random_actions(LENGTH + 3))
    trace = env.trace()
    np.testing.assert_array_equal(trace.boundary, boundary)
    np.testing.assert_allclose(trace.reward_parts.sum(axis=2), reward, atol=1e-6)
    assert trace.episode_step[:, 0].tolist() == [*range(LENGTH), 0, 1, 2]
    np.testing.assert_array_equal(trace.obs[: LENGTH - 1], obs[: LENGTH - 1])
    assert not np.array_equal(trace.obs[LENGTH - 1], obs[LENGTH - 1])
    assert {(0, 0), (5, 0), (LENGTH, 0)} <= set(trace.frames)
    assert trace.frames[0, 0].shape == (144, 160)
    assert set(trace.starts) == {(t, n) for t in (0, LENGTH) for n in range(N)}
    assert env.trace() is None
