import base64
import json

import numpy as np

from questloop.episodes.png import decode_screen
from questloop.episodes.trace import Trace
from questloop.game.batch import GameBatch
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.training.live_view import AGENTS, EVERY_S, TRAIL, LiveView
from questloop.training.runner import Sample


def traced(slots, steps):
    rom = Rom.load(None)
    profile = profile_for(rom)
    game = GameBatch(rom, profile.layout, slots, 4)
    taps = np.zeros((steps, slots, profile.layout.size), np.uint8)
    frames = {}
    for step in range(steps):
        taps[step] = game.step(np.zeros(slots, np.uint8), np.ones(slots, bool))
        frames |= {(step, slot): game.screen(slot) for slot in range(slots)}
    game.close()
    nothing = np.zeros((steps, slots), np.uint8)
    return profile, Trace(
        episode_step=nothing, action=nothing, mode=nothing, boundary=nothing, taps=taps,
        obs=np.zeros((steps, slots, 128), np.float32), reward_parts=np.zeros((steps, slots, 1), np.float32),
        milestones=nothing.astype(object), frames=frames,
    )  # fmt: skip


def sample(runner, trace):
    return Sample(runner, None, None, trace, 0.0, 0.0)


def test_a_few_agents_are_shown_at_most_every_few_seconds(tmp_path):
    profile, trace = traced(slots=5, steps=20)
    store, now = open_store(str(tmp_path)), [0.0]
    view = LiveView(store, profile, clock=lambda: now[0])
    view.show(2, 700, [sample(0, trace), sample(1, trace)])
    view.show(2, 800, [sample(0, trace)])
    view.flush()
    document = json.loads(store.get(keys.agents()))
    assert (document["epoch"], document["step"]) == (2, 700)
    assert [each["agent"] for each in document["agents"]] == [0, 2, 4, 5, 7, 9]
    assert len(document["agents"]) == AGENTS
    last = document["agents"][-1]
    columns = profile.columns(trace.taps[-1])
    assert len(last["trail"]) == TRAIL
    assert last["trail"][-1] == [int(each[4]) for each in (columns.group, columns.room, columns.x, columns.y)]
    assert (decode_screen(base64.b64decode(last["screen"])) == trace.frames[19, 4]).all()
    walks = columns.walks_freely[4]
    assert last["pictured"] == (last["trail"][-1][:2] if walks else None)
    now[0] = EVERY_S
    view.show(2, 900, [sample(0, None)])
    view.flush()
    assert json.loads(store.get(keys.agents())) == {
        "schema_version": 1,
        "epoch": 2,
        "step": 900,
        "agents": [],
    }
