import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from questloop.episodes.run import Run
from questloop.exit_codes import ExitCode
from questloop.storage import keys
from questloop.storage.commit import commit_stage, to_json
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.store import open_store

RUN = Run(
    run="r1",
    game="mossgrove",
    rom_sha256="0" * 64,
    seed=0,
    observation="vector",
    observation_version=1,
    frame_skip=4,
    created=datetime(2026, 1, 1, tzinfo=UTC),
)


def verify(*arguments, cwd):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "COLUMNS": "200",
    }
    return subprocess.run(
        [sys.executable, "-m", "questloop.cli.app", "verify", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.put(keys.run(), to_json(RUN))
    with Lease.acquire(store, "r1") as lease:
        stored = store.put(keys.checkpoint(0, "state.json"), b'{"files": {}, "counts": {"step": 8}}')
        info = {"segments": 0, "step_start": 0, "step_end": 8}
        commit_stage(store, 0, Stage.ROLLOUTS, lease.fence, [stored], info)
    store.put(keys.reward_model(0), b"left behind")
    return store


def test_json(store, tmp_path):
    done = verify("store", "--json", cwd=tmp_path)
    assert done.returncode == ExitCode.DONE, done.stderr
    assert json.loads(done.stdout) | {"findings": 0} == {
        "segments": 0, "scores": 0, "models": 1, "orphans": 1, "missing": 0, "bad_hashes": 0, "duplicates": 0,
        "bad_documents": 0, "lineage": 0, "spoilt": 0, "ok": True, "findings": 0,
    }  # fmt: skip
    assert done.stderr == ""


def test_files_of_a_pipeline_that_is_writing_are_not_called_left_over(store, tmp_path):
    with Lease.acquire(store, RUN.run):
        said = verify("store", cwd=tmp_path).stdout
    assert "1 file that no finished stage lists: a pipeline is writing the store" in said
    assert "--repair" not in said
    assert "left by stages that were stopped" in verify("store", cwd=tmp_path).stdout


def test_repair_deletes_orphans_only_and_says_so(store, tmp_path):
    said = verify("store", cwd=tmp_path).stdout
    assert (
        "1 file left by stages that were stopped, which nothing uses: --json lists, --repair deletes" in said
    )
    assert keys.reward_model(0) not in said
    assert store.exists(keys.reward_model(0))
    assert "removed 1 objects" in verify("store", "--repair", cwd=tmp_path).stdout
    assert not store.exists(keys.reward_model(0))
    assert store.exists(keys.checkpoint(0, "state.json"))


def test_repair_is_refused_while_a_pipeline_writes(store, tmp_path):
    with Lease.acquire(store, "r1"):
        done = verify("store", "--repair", cwd=tmp_path)
    assert done.returncode == ExitCode.UNAVAILABLE
    assert done.stderr.startswith("error: store ")
    assert "is being written by another pipeline" in done.stderr
    assert done.stderr.count("\n") == 1
    assert store.exists(keys.reward_model(0))


def test_damage_is_named_and_is_no_success(store, tmp_path):
    store.put(keys.checkpoint(0, "state.json"), b"[]")
    done = verify("store", cwd=tmp_path)
    assert done.returncode == ExitCode.BAD_DATA
    assert "bad_hash: zelda-models/checkpoints/epoch_0/state.json" in done.stdout
    assert "NOT ok" in done.stdout


def test_no_store(tmp_path):
    done = verify("nowhere", cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == "error: store nowhere: no such folder; give the STORE_URL of a run\n"
    assert not (tmp_path / "nowhere").exists()


def test_rewinding_withdraws_the_results_of_an_epoch_and_says_so(store, tmp_path):
    store.delete([keys.checkpoint(0, "state.json")])
    said = verify("store", cwd=tmp_path).stdout
    assert "play again from epoch 0 on: questloop verify store --rewind 0 --repair" in said
    done = verify("store", "--rewind", "0", "--repair", cwd=tmp_path)
    assert done.returncode == ExitCode.DONE, done.stdout
    assert f"withdrawn: {keys.commit(0, Stage.ROLLOUTS)}" in done.stdout
    assert "removed 1 objects" in done.stdout
    assert not store.exists(keys.commit(0, Stage.ROLLOUTS))


def test_a_store_without_a_run_is_not_rewound(tmp_path):
    open_store(str(tmp_path / "store"))
    done = verify("store", "--rewind", "0", cwd=tmp_path)
    assert done.returncode == ExitCode.BAD_DATA
    assert done.stderr.startswith("error: store store holds no run")
