"""A Ray cluster of three nodes whose head is killed in the middle of an epoch, against a real S3 server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, open_store

ROOT = Path(__file__).parents[2]
STEPS = 16_384
EPOCH = {
    "EPOCH_STEPS": str(STEPS),
    "FRAME_SKIP": "4",
    "EPISODE_LENGTH": "256",
    "RAY_WORKERS": "2",
    "ENVS_PER_WORKER": "4",
    "BATCH_SIZE": "1024",
    "PPO_EPOCHS": "1",
    "EXPORT_SEGMENTS_PER_EPOCH": "24",
    "JUDGE_BUDGET": "12",
    "JUDGE_VOTES": "1",
}

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(1200)]


@contextmanager
def ray_cluster(dashboard_port, secrets):
    """A head that runs jobs and no environment, and two workers; keys are on the nodes, as by Secret."""
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    os.environ.update(secrets, RAY_USAGE_STATS_ENABLED="0", QUESTLOOP_TEST_HEAD=str(dashboard_port))
    os.environ["RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT"] = "300"  # a busy machine
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": True,
            "dashboard_port": dashboard_port,
            "dashboard_agent_listen_port": free_port(),
        },
    )
    try:
        cluster.add_node(num_cpus=1)
        cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)


def test_an_epoch_goes_on_after_its_head_was_killed_and_loses_nothing(s3_server, tmp_path):
    port = free_port()
    secrets = {"S3_ACCESS_KEY": s3_server.access_key, "S3_SECRET_KEY": s3_server.secret_key}
    store = open_store(s3_server.settings())
    command = [sys.executable, "-m", "questloop", "epoch", "--address", f"http://127.0.0.1:{port}", "--json"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        **s3_server.environment(),
        **EPOCH,
    }
    log = tmp_path / "driver.log"
    with log.open("w") as told:
        with ray_cluster(port, secrets) as cluster:
            driver = subprocess.Popen(
                command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=told, text=True
            )
            assert wait_for_steps(store, driver), log.read_text()
            cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
            kill_what_runs_the_job(port)
        with ray_cluster(port, secrets):  # as the operator makes it again, with nothing of before
            printed, _ = driver.communicate(timeout=900)
    assert driver.returncode == 0, log.read_text()
    results = json.loads(printed.strip().splitlines()[-1])
    assert [(result["stage"], result["attempts"]) for result in results] == [
        ("rollouts", 2),
        ("evaluate", 1),
        ("reward_model", 1),
    ]
    assert "submitting it again" in log.read_text()
    assert read_commit(store, 0, Stage.ROLLOUTS).info["step_end"] == STEPS
    verify = subprocess.run(
        [sys.executable, "-m", "questloop", "verify", "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(verify.stdout)
    assert (found["ok"], found["duplicates"], found["missing"], found["bad_hashes"]) == (True, 0, 0, 0)
    assert found["segments"] == 24


def kill_what_runs_the_job(dashboard_port):
    """It ran beside the head, as in the head's pod, of which nothing is left."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            of_this_head = process.environ().get("QUESTLOOP_TEST_HEAD") == str(dashboard_port)
            if of_this_head and "rollouts" in process.cmdline():
                process.kill()


def wait_for_steps(store, driver):
    """Whether the epoch is in its middle."""
    for _ in range(1200):
        try:
            if json.loads(store.get(keys.progress()))["step"] > STEPS // 8:
                return True
        except NotFound:
            pass
        if driver.poll() is not None:
            return False
        time.sleep(0.25)
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
