"""A store with a committed epoch of the bundled game, played by a seeded random agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from questloop.episodes.epoch_export import EpochExport
from questloop.episodes.exporter import Exporter
from questloop.episodes.files import Recording
from questloop.episodes.recorder import Recorder
from questloop.episodes.takeover import PlayedPlan, Takeover
from questloop.episodes.trace import Trace
from questloop.game.batch import GameBatch
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import Store

PNG_STRIDE = 10
TAKEOVER = Takeover(
    mode="puzzle",
    room="4:11",
    first_step=10,
    steps=27,
    outcome="room_changed",
    plans=(
        PlayedPlan(step=0, source="a-model", reason="", macros=(), played=0, ended="invalid"),
        PlayedPlan(
            step=1,
            source="a-model",
            reason="push <the> block",
            macros=("PUSH_BLOCK 3,4 up", "WAIT 8"),
            played=1,
            ended="room_changed",
        ),
    ),
)
"""what the planner is said to have done in slot 0"""


def play(
    store: Store, slots: int = 4, steps: int = 900, seed: int = 0, info: dict[str, Any] | None = None
) -> None:
    """Epoch 0: each slot one open episode of `steps` steps, every segment exported."""
    rom = Rom.load(None)
    profile = profile_for(rom)
    rng = np.random.default_rng(seed)
    game = GameBatch(rom, profile.layout, slots, 4)
    taps = np.zeros((steps, slots, profile.layout.size), np.uint8)
    action = np.repeat(rng.integers(0, 7, (-(-steps // 12), slots), np.uint8), 12, axis=0)[:steps]
    frames = {}
    for step in range(steps):
        render = np.full(slots, step % PNG_STRIDE == 0)
        taps[step] = game.step(action[step], render)
        frames |= {(step, slot): game.screen(slot) for slot in np.flatnonzero(render).tolist()}
    game.close()
    trace = Trace(
        episode_step=np.stack([np.arange(steps)] * slots, axis=1),
        action=action,
        mode=np.zeros((steps, slots), np.uint8),
        boundary=np.zeros((steps, slots), np.uint8),
        taps=taps,
        obs=np.zeros((steps, slots, 128), np.float32),
        reward_parts=(rng.random((steps, slots, 1)) < 0.02).astype(np.float32),
        milestones=profile.detector(taps.reshape(-1, taps.shape[-1])).reshape(steps, slots),
        frames=frames,
        starts={},
        takeovers=[(40, 0, TAKEOVER)],
    )
    names = tuple(milestone.key for milestone in profile.milestones)
    recorder = Recorder(slots, run="r1", epoch=0, fence=1, reward_names=("room",), milestone_names=names)
    exporter = Exporter(store, Recording(profile, rom, frame_skip=4, observation_version=1))
    export = EpochExport(store, recorder, exporter, budget="all", epoch_steps=steps * slots, seed=0)
    export.add(trace)
    commit_stage(store, 0, Stage.ROLLOUTS, 1, export.close().objects, info)
