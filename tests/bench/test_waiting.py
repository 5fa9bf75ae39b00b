"""What a user waits for: read off a store and off processes."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from questloop.bench import waiting
from questloop.storage.keys import Stage

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def played(monkeypatch):
    """Two epochs of 100 s; judging the first one took 5 s, and the second reached the goal in its middle."""
    info = {"seconds": 100.0, "steps_per_second": 10.0, "milestone_steps": {}, "step_start": 0}
    later = info | {"step_start": 1000, "milestone_steps": {waiting.GOAL: 1500}}
    commits = {
        (0, Stage.ROLLOUTS): SimpleNamespace(epoch=0, created=BEGAN, info=info),
        (0, Stage.REWARD_MODEL): SimpleNamespace(epoch=0, created=BEGAN + timedelta(seconds=5), info={}),
        (1, Stage.ROLLOUTS): SimpleNamespace(epoch=1, created=BEGAN + timedelta(seconds=105), info=later),
    }
    monkeypatch.setattr(waiting, "read_commit", lambda store, epoch, stage: commits.get((epoch, stage)))
    monkeypatch.setattr(
        waiting, "committed_epochs", lambda store, stage: sorted(e for e, s in commits if s is stage)
    )
    return commits


def test_judging_is_a_share_of_the_training_that_follows(played):
    assert waiting.demo_figures(None)["judge_share"].value == pytest.approx(0.05)


def test_the_essence_comes_after_the_training_before_it(played):
    assert waiting.demo_figures(None)["seconds_to_essence"].value == pytest.approx(150.0)


def test_an_essence_that_never_came_is_missing(played):
    played[1, Stage.ROLLOUTS].info["milestone_steps"].clear()
    assert waiting.demo_figures(None)["seconds_to_essence"].value is None


def test_memory_is_that_of_all_processes():
    pytest.importorskip("psutil")
    block = "x = bytearray(64 * 2**20); print(flush=True); input()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {block!r}])"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    )
    parent.stdout.readline()
    try:
        assert 64 < waiting.tree_mb(parent.pid) < 200
    finally:
        parent.communicate(b"\n")
    assert waiting.tree_mb(parent.pid) == 0
