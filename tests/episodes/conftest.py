"""Traces of the bundled game, played by a seeded random agent on the real emulator."""

from dataclasses import replace

import numpy as np
import pytest

from questloop.episodes.files import Recording
from questloop.episodes.recorder import Recorder
from questloop.episodes.trace import EpisodeStart, Trace
from questloop.game.batch import GameBatch
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.storage.store import open_store

REWARDS = ("room", "tile", "health")
STEPS, SLOTS, PNG_STRIDE = 700, 2, 10


@pytest.fixture(scope="session")
def recording():
    rom = Rom.load(None)
    return Recording(profile_for(rom), rom, frame_skip=4, observation_version=1)


@pytest.fixture(scope="session")
def played(recording):
    """700 steps of 2 slots; an episode of slot 0 ends at step 450, so its second segment is short."""
    profile = recording.profile
    game = GameBatch(recording.rom, profile.layout, SLOTS, recording.frame_skip)
    random = np.random.default_rng(3)
    action = np.repeat(random.integers(0, 8, (STEPS // 10, SLOTS), np.uint8), 10, axis=0)
    step = np.stack([np.arange(STEPS)] * SLOTS, axis=1)
    step[450:, 0] -= 450
    taps = np.zeros((STEPS, SLOTS, profile.layout.size), np.uint8)
    frames = {}
    for t in range(STEPS):
        if t == 450:
            game.reset(0)
        render = step[t] % PNG_STRIDE == 0
        taps[t] = game.step(action[t], render)
        frames |= {(t, slot): game.screen(slot) for slot in np.flatnonzero(render).tolist()}
    game.close()
    boundary = np.zeros((STEPS, SLOTS), np.uint8)
    boundary[449, 0] = 2
    return Trace(
        episode_step=step,
        action=action,
        mode=np.zeros((STEPS, SLOTS), np.uint8),
        boundary=boundary,
        taps=taps,
        obs=random.random((STEPS, SLOTS, 128), np.float32),
        reward_parts=(random.random((STEPS, SLOTS, len(REWARDS))) < 0.02).astype(np.float32),
        milestones=profile.detector(taps.reshape(-1, taps.shape[-1])).reshape(STEPS, SLOTS),
        frames=frames,
        starts={(0, 0): EpisodeStart(seed=5, state="forest"), (450, 0): EpisodeStart(seed=6)},
    )


@pytest.fixture(scope="session")
def make_recorder(recording):
    def make(run="r1", epoch=0, fence=1, slots=SLOTS, **changed):
        names = tuple(milestone.key for milestone in recording.profile.milestones)
        values = {"reward_names": REWARDS, "milestone_names": names} | changed
        return Recorder(slots, run=run, epoch=epoch, fence=fence, **values)

    return make


@pytest.fixture(scope="session")
def segments(played, make_recorder):
    """Three completed segments: two of 300 frames, and one of 150 that ends its episode."""
    return make_recorder().add(played)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def cut(trace, start, stop):
    """Rows `start` to `stop` of a trace."""
    arrays = ("episode_step", "action", "mode", "boundary", "taps", "obs", "reward_parts", "milestones")
    return replace(
        trace,
        **{name: getattr(trace, name)[start:stop] for name in arrays},
        frames={(t - start, n): picture for (t, n), picture in trace.frames.items() if start <= t < stop},
        starts={(t - start, n): begun for (t, n), begun in trace.starts.items() if start <= t < stop},
    )
