"""Plays two epochs of a synthetic trace into a store, as a pipeline would; a test kills it again and again.

Usage: python export_script.py STORE_URL
"""

import io
import sys

import numpy as np

from questloop import settings
from questloop.episodes.epoch_export import EpochExport
from questloop.episodes.exporter import Exporter
from questloop.episodes.files import Recording
from questloop.episodes.recorder import Recorder
from questloop.episodes.trace import Trace
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.screen import SCREEN_SHAPE
from questloop.storage import keys
from questloop.storage.commit import commit_stage, read_commit
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.store import open_store

RUN, EPOCHS, STEPS, SLOTS, EPISODE = "r1", 2, 1000, 2, 700


def main(url: str) -> None:
    store = open_store(settings.load(None, {"store_url": url}).store)
    rom = Rom.load(None)
    recording = Recording(profile_for(rom), rom, frame_skip=4, observation_version=1)
    with Lease.acquire(store, RUN) as lease:
        print("started", flush=True)
        for epoch in range(EPOCHS):
            if read_commit(store, epoch, Stage.ROLLOUTS) is None:
                play(store, lease, epoch, recording)
    print("done", flush=True)


def play(store, lease, epoch, recording):
    recorder = Recorder(
        SLOTS, run=RUN, epoch=epoch, fence=lease.fence, reward_names=("room",), milestone_names=()
    )
    if epoch:
        state = np.load(io.BytesIO(store.get(keys.checkpoint(epoch - 1, "recorder.npz"))), allow_pickle=False)
        recorder.load_state_dict(state)
    export = EpochExport(
        store, recorder, Exporter(store, recording), budget="all", epoch_steps=STEPS * SLOTS, seed=0
    )
    for start in range(epoch * STEPS, (epoch + 1) * STEPS, 50):
        export.add(trace(recording, start, 50))
    report = export.close()
    file = io.BytesIO()
    np.savez(file, **recorder.state_dict())
    checkpoint = store.put(keys.checkpoint(epoch, "recorder.npz"), file.getvalue(), durable=True)
    lease.check()
    steps = {"step_start": epoch * STEPS * SLOTS, "step_end": (epoch + 1) * STEPS * SLOTS}
    commit_stage(store, epoch, Stage.ROLLOUTS, lease.fence, [*report.objects, checkpoint], steps)


def trace(recording, start, steps):
    """Steps of the run from `start`; what stands in it is a function of the step alone."""
    step = np.arange(start, start + steps)[:, None] + np.arange(SLOTS)[None] * 100
    if start == 0:
        step[:] = np.arange(steps)[:, None]
    episode_step = np.repeat((np.arange(start, start + steps) % EPISODE)[:, None], SLOTS, axis=1)
    taps = np.zeros((steps, SLOTS, recording.profile.layout.size), np.uint8)
    obs = np.repeat(step[..., None].astype(np.float32), 128, axis=2)
    frames = {
        (t, slot): np.full(SCREEN_SHAPE, int(episode_step[t, slot]), np.uint16)
        for t in range(steps)
        for slot in range(SLOTS)
        if episode_step[t, slot] % 50 == 0
    }
    return Trace(
        episode_step=episode_step,
        action=(step & 7).astype(np.uint8),
        mode=np.zeros((steps, SLOTS), np.uint8),
        boundary=np.where(episode_step == EPISODE - 1, 2, 0).astype(np.uint8),
        taps=taps,
        obs=obs,
        reward_parts=(step % 97 == 0).astype(np.float32)[..., None],
        milestones=np.zeros((steps, SLOTS), np.uint64),
        frames=frames,
    )


if __name__ == "__main__":
    main(sys.argv[1])
