import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """The folder store of a finished run of two epochs; the game and its learning are fakes."""
    folder = tmp_path_factory.mktemp("run")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.faults.pipeline", str(folder)],
        env={**os.environ, "PYTHONPATH": f"src{os.pathsep}."},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "store"
