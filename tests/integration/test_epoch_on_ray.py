"""Epochs driven by jobs on a real Ray cluster: a head and two workers, each a node of its own."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from questloop.pipeline.ray_jobs import Cycle, EpochDriver
from questloop.settings import StoreSettings
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, open_store

ROOT = Path(__file__).parents[2]
STEPS = 8_192

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster():
    """The head runs jobs and no environment, as in the manifests; a worker has room for both runners."""
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT"] = "300"  # a busy machine
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": True,
            "dashboard_port": free_port(),
            "dashboard_agent_listen_port": free_port(),
        },
    )
    try:
        cluster.add_node(num_cpus=2)
        cluster.add_node(num_cpus=2)
        yield cluster
    finally:
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)


def test_an_epoch_survives_a_killed_worker_and_is_not_run_twice(cluster, tmp_path):
    address = f"http://{cluster.webui_url}"
    store = open_store(StoreSettings(store_url=str(tmp_path / "store")))
    told: list[str] = []
    environment = {
        "STORE_URL": str(tmp_path / "store"),
        "EPOCH_STEPS": str(STEPS),
        "FRAME_SKIP": "4",
        "EPISODE_LENGTH": "256",
        "RAY_WORKERS": "2",
        "ENVS_PER_WORKER": "4",
        "BATCH_SIZE": "1024",
        "PPO_EPOCHS": "1",
        "JUDGE_BUDGET": "12",
        "JUDGE_VOTES": "1",
    }
    driver = EpochDriver(address, store, tell=told.append, environment=environment)
    killer = threading.Thread(target=kill_a_worker_in_the_middle, args=(cluster, store))
    killer.start()
    trained = driver.run(0, (Cycle.A,))
    killer.join()
    judged = driver.run(0, (Cycle.B,))

    assert len(cluster.worker_nodes) == 1
    assert [result.job for result in trained] == ["zelda-train-epoch-0"], told
    assert [result.job for result in judged] == ["zelda-eval-epoch-0", "zelda-reward-epoch-0"], told
    assert read_commit(store, 0, Stage.ROLLOUTS).info["step_end"] == STEPS
    assert store.exists(keys.reward_model(0))
    assert [result.attempts for result in driver.run(0)] == [0, 0, 0]
    without_store = EpochDriver(address, tell=told.append, environment=environment)
    assert [result.attempts for result in without_store.run(0)] == [0, 0, 0]


def kill_a_worker_in_the_middle(cluster, store):
    for _ in range(1200):
        try:
            done = json.loads(store.get(keys.progress()))["step"]
        except NotFound:
            done = 0
        if done > 0:
            break
        time.sleep(0.25)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
