import shutil

import pytest
from tests.pipeline.playing import play

from questloop.pipeline import stages
from questloop.pipeline.context import open_context
from questloop.settings import load
from questloop.storage.store import open_store

PLAYED = {
    "run": "r1",
    "epoch": 0,
    "step_start": 0,
    "step_end": 3600,
    "return_mean": None,
    "return_per_1000_steps": 2.5,
    "steps_per_second": 2000.0,
    "unique_rooms": 2,
    "milestones": {"met_elder": 3, "sword_1": 0},
    "room_visits": {"0:21": 2000, "0:20": 900, "3:00": 12},
    "curve": [
        {"step": step, "return_per_1000_steps": step / 900, "unique_rooms_per_episode": 1.0, "entropy": 2.0}
        for step in (1800, 3600)
    ],
    "shaping_weight": 0.0,
    "planner": {"takeovers": {"dialog done": 4}, "steps": 80, "plans": 4, "plans_invalid": 0},
}


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """A store with an epoch of the real game, judged, with a reward model."""
    folder = tmp_path_factory.mktemp("web") / "store"
    settings = load(flags={"store_url": str(folder)})
    with open_context(settings) as context:
        play(context.store, info=PLAYED)
        stages.evaluate(context, 0)
        stages.reward_model(context, 0)
    return folder


@pytest.fixture
def store(judged, tmp_path):
    """A copy of it that may be changed."""
    return open_store(str(shutil.copytree(judged, tmp_path / "store")))
