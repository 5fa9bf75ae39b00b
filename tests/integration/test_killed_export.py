"""Processes that export are killed with -9 at random moments; in the end everything is there once."""

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.integration.export_script import EPISODE, EPOCHS, SLOTS, STEPS

from questloop.episodes.audit import audit, remove_orphans
from questloop.storage.store import open_store

SCRIPT = Path(__file__).with_name("export_script.py")
SEGMENTS = SLOTS * (STEPS * EPOCHS // EPISODE * 3 + STEPS * EPOCHS % EPISODE // 300)


def run(url, environment, seconds=None):
    """Run the script, kill it `seconds` after it got its lease; True where it ended by itself."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), url],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline().strip() == "started", process.stderr.read()
        if seconds is not None:
            time.sleep(seconds)
            process.kill()
        out, errors = process.communicate(timeout=120)
        assert process.returncode in ((0,) if seconds is None else (0, -9)), (process.returncode, errors)
    return "done" in out


def content(store):
    """Names without fences, and bytes of what is committed for good; manifests name their fence."""
    return {
        re.sub(r"-f\d{4}/", "/", entry.key): store.get(entry.key)
        for entry in store.list("zelda-episodes")
        if not entry.key.endswith(".json")
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", pytest.param("s3", marks=pytest.mark.integration)])
def test_nothing_is_lost_and_nothing_twice(kind, tmp_path, request):
    environment, url, settings = {}, str(tmp_path / "store"), None
    if kind == "s3":
        server = request.getfixturevalue("s3_server")
        environment, url = server.environment(), "s3://one/killed"
        settings = server.settings(url)
    chance = random.Random(4)
    kills = 0
    while kills < 5 and not run(url, environment, chance.uniform(0, 0.5)):
        kills += 1
    assert run(url, environment)
    store = open_store(settings or url)
    found = audit(store)
    assert found.ok, found.findings[:5]
    assert found.segments == SEGMENTS
    remove_orphans(store, found)
    store.remove_unfinished()
    assert audit(store).findings == []
    whole = open_store(str(tmp_path / "whole"))
    assert run(str(tmp_path / "whole"), {})
    assert content(store) == content(whole)
