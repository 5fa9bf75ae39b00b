"""Short forms of `make faults` and of the soak."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.long, pytest.mark.integration]


def last_line(module, *arguments):
    """Run a module as its command does; the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": f"src{os.pathsep}."},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(1800)
def test_nothing_is_lost():
    # tests/integration kills runs on the real game, tests/storage has the faults of S3.
    parts = "kills,disk,files,clocks,writers,judges,nan"
    counted = last_line("tests.faults", "--seed", "0", "--points", "12", "--parts", parts)
    assert counted["lost"] == 0
    assert counted["injected"] == counted["survived"] > 30


@pytest.mark.timeout(1800)
def test_nothing_grows():
    figures = last_line("tests.faults.soak", "--epochs", "16")["second_and_last_quarter"]
    for name in ("handles", "threads"):
        early, late = figures[name]
        assert late <= early + 1, figures
    early, late = figures["python_objects"]
    assert late <= early + 250, figures  # a library that remembers what an epoch made keeps dozens an epoch
    early, late = figures["rss_mb"]
    assert late <= 1.1 * early, figures
    early, late = figures["episode_objects"]
    assert late <= 1.2 * early, figures
