"""The dashboard over a made-up run of 200 epochs and 10,000 segments: what pages cost, and its memory."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.web.large_store import enlarge

from questloop.storage.store import open_store

ROOT = Path(__file__).parents[2]
EPOCHS, SEGMENTS = 200, 50
MOST_MB = 300
PAGES = (
    "/", "/curves", "/curves.json", "/map", "/map/tiles.json", "/map/trails.json", "/segments",
    "/segments?order=best", "/segments?page=99", "/segments?order=disputed", "/episodes", "/archive",
    "/planner", "/judges", "/label", "/run", "/progress", "/curves.csv",
)  # fmt: skip

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def dashboard(judged, tmp_path):
    """The command over the large store: its address and its process."""
    store = open_store(str(shutil.copytree(judged, tmp_path / "store")))
    enlarge(store, EPOCHS, SEGMENTS)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "questloop.cli.app", "dashboard", store.url, "--port", "0", "--no-fleet"]
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path
    )
    try:
        yield re.search(r"http://\S+", process.stderr.readline())[0], process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


def test_a_large_run_is_shown_within_bounds(dashboard):
    """Times are printed, not judged: they are the machine's. A cold process is asked the first page."""
    url, pid = dashboard
    patient = httpx.HTTPTransport(retries=6)  # the address is told a moment before anybody listens
    with httpx.Client(base_url=url, timeout=300, transport=patient) as client:
        for path in PAGES:
            took = []
            for _ in range(3):
                cpu, began = cpu_s(pid), time.perf_counter()
                answer = client.get(path)
                took.append((time.perf_counter() - began, cpu_s(pid) - cpu))
                assert answer.status_code == 200, path
            first, *later = took
            wall, cpu = min(later)
            print(
                f"{path:26} first {first[0]:6.3f} s ({first[1]:5.2f} s of CPU)  "
                f"later {wall:6.3f} s ({cpu:5.2f})  "
                f"{len(answer.content) / 1024:7.0f} KiB"
            )
    most = peak_mb(pid)
    print(f"largest resident memory {most:.0f} MB")
    assert most < MOST_MB


def cpu_s(pid):
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid):
    """Largest resident memory of a process."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024
