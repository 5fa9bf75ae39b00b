"""The whole loop on the bundled game: measured figures, `kill -9` at every stage, S3, bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from questloop.episodes.reader import SegmentReader
from questloop.exit_codes import ExitCode
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.timeout(900),
]

SMALL = {
    "EPOCH_STEPS": "6144",
    "FRAME_SKIP": "4",
    "RAY_WORKERS": "2",
    "ENVS_PER_WORKER": "4",
    "EPISODE_LENGTH": "600",
    "BATCH_SIZE": "1024",
    "MINIBATCH_SIZE": "256",
    "EXPORT_SEGMENTS_PER_EPOCH": "all",
}
STAGES = [Stage.ROLLOUTS, Stage.EVALUATE, Stage.REWARD_MODEL]


def environment(**changed: str) -> dict[str, str]:
    return {**os.environ, **SMALL, "PYTHONPATH": "src", "PYTHONWARNINGS": "ignore", **changed}


def questloop(*arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "questloop.cli.app", *arguments]
    return subprocess.run(
        command, env=environment(**changed), capture_output=True, text=True, timeout=600, check=False
    )


def demo(store: str, **changed: str) -> dict:
    done = questloop("demo", "--store", store, "--json", **changed)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def facts(store_url_or_store) -> dict:
    """What two equal runs share: steps, trajectories, scores, reward models, segments."""
    store = (
        open_store(str(store_url_or_store))
        if isinstance(store_url_or_store, str | Path)
        else store_url_or_store
    )
    found = {}
    for epoch in (0, 1):
        played, judged, learned = (read_commit(store, epoch, stage) for stage in STAGES)
        assert played is not None
        assert judged is not None
        assert learned is not None
        found[epoch] = {
            "steps": (played.info["step_start"], played.info["step_end"]),
            "trajectories": played.info["trajectory_hashes"],
            "segments": [name.rsplit("-f", 1)[0] for name in SegmentReader(store).list(epoch)],
            "scored": judged.info["judged"],
            "reward_model": learned.info["sha256"],
        }
    return found


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """An uninterrupted run: its folder and the closing document."""
    folder = tmp_path_factory.mktemp("loop") / "store"
    return folder, demo(str(folder))


def test_every_figure_of_the_closing_table_is_measured(reference):
    _, document = reference
    rows = document["rows"]
    assert [row["epoch"] for row in rows] == [0, 1]
    for row in rows:
        assert row["steps"] == 6144
        for name in ("return_mean", "judge_agreement", "reward_model_accuracy"):
            assert row[name] is not None, name
        assert row["unique_rooms"] >= 1
    for name in ("return_mean", "judge_agreement"):
        assert rows[0][name] != rows[1][name], f"{name} is the same in both epochs"
    page = Path(document["report"]).read_text("utf-8")
    assert "Best segment" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_epoch_1_was_shaped_by_the_model_of_epoch_0(reference):
    folder, _ = reference
    store = open_store(str(folder))
    learned = read_commit(store, 0, Stage.REWARD_MODEL)
    assert learned is not None
    (model,) = [item for item in learned.objects if item.key == keys.reward_model(0)]
    reader = SegmentReader(store)
    shas = {reader.manifest(segment).reward_model_sha256 for segment in reader.list(1)}
    assert shas == {model.sha256}
    assert {reader.manifest(segment).reward_model_sha256 for segment in reader.list(0)} == {None}


def test_the_auditor_finds_the_run_whole(reference):
    folder, _ = reference
    done = questloop("verify", str(folder), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, found
    assert found["ok"]
    assert found["orphans"] == found["missing"] == found["bad_hashes"] == found["duplicates"] == 0
    assert found["segments"] > 0
    assert found["scores"] > 0
    assert found["models"] == 4, "a checkpoint and a reward model an epoch"


@pytest.mark.long
def test_killed_in_every_stage_and_stopped_by_sigterm_it_is_the_same_run(reference, tmp_path):
    folder, _ = reference
    store_path = tmp_path / "store"
    for stage in STAGES:
        with started(store_path) as process:
            wait_for_stage(store_path, 0, stage, process)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with started(store_path) as process:
        wait_for_stage(store_path, 1, Stage.ROLLOUTS, process)
        process.terminate()
        process.wait(timeout=120)
        errors = errors_of(store_path).read_text()
        assert process.returncode == ExitCode.PREEMPTED, errors
        assert errors.strip().splitlines()[-1].startswith("stopped; the same command goes on"), errors
    assert read_commit(open_store(str(store_path)), 1, Stage.ROLLOUTS) is None
    demo(str(store_path))
    assert facts(store_path) == facts(folder)
    done = questloop("verify", str(store_path), "--json")
    assert json.loads(done.stdout)["ok"], done.stdout


@contextmanager
def started(store: Path) -> Iterator[subprocess.Popen]:
    """`questloop demo` in a process group of its own."""
    with errors_of(store).open("w") as errors:  # a pipe would stay open until Ray's own processes end
        process = subprocess.Popen(
            [sys.executable, "-m", "questloop.cli.app", "demo", "--store", str(store), "--json"],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def errors_of(store: Path) -> Path:
    return store.with_suffix(".stderr")


def wait_for_stage(folder: Path, epoch: int, stage: Stage, process: subprocess.Popen) -> None:
    """Return once the run is in this stage of this epoch, by `progress.json`."""
    progress = folder / keys.progress()
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before the stage was seen"
        if progress.exists():
            now = json.loads(progress.read_text() or "{}")
            if (now.get("epoch"), now.get("stage")) == (epoch, stage.value):
                return
        time.sleep(0.02)
    raise AssertionError(f"stage {stage} was never seen")


@pytest.mark.long
def test_the_same_run_on_a_real_s3_server(reference, s3_server):
    folder, _ = reference
    document = demo("s3://one", **s3_server.environment())
    assert len(document["rows"]) == 2
    assert facts(open_store(s3_server.settings("s3://one"))) == facts(folder)


BAD_INPUT = [
    ({"ROM_PATH": "/nowhere/zelda.gbc"}, ExitCode.BAD_DATA, "ROM_PATH"),
    ({"ROM_PATH": "README.md"}, ExitCode.BAD_DATA, "README.md"),
    ({"EPOCH_STEPS": "many"}, ExitCode.USAGE, "EPOCH_STEPS"),
    ({"BATCH_SIZE": "1000", "MINIBATCH_SIZE": "512"}, ExitCode.USAGE, "MINIBATCH_SIZE"),
    (
        {
            "STORE_URL": "s3://x",
            "S3_ENDPOINT_URL": "http://127.0.0.1:9",
            "S3_ACCESS_KEY": "a",
            "S3_SECRET_KEY": "b",
        },
        ExitCode.UNAVAILABLE,
        "127.0.0.1:9",
    ),
    ({"LOW_WATER_MB": "999999999"}, ExitCode.DISK_FULL, "LOW_WATER_MB"),
]


@pytest.mark.parametrize(("changed", "code", "named"), BAD_INPUT, ids=[name for *_, name in BAD_INPUT])
def test_bad_input_is_one_clear_line_and_leaves_nothing(tmp_path, changed, code, named):
    store = tmp_path / "store"
    done = questloop("demo", **{"STORE_URL": str(store), **changed})
    assert done.returncode == code, done.stderr[-2000:]
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert named in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_judge_that_does_not_answer_stops_the_run_and_keeps_the_rollouts(reference, tmp_path):
    folder, _ = reference
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    for epoch, stages in ((0, STAGES[1:]), (1, STAGES)):
        for stage in stages:
            (store / keys.commit(epoch, stage)).unlink()
    shutil.rmtree(store / Path(keys.scores(0)).parent.parent)
    done = questloop("demo", "--store", str(store), LLM_ENDPOINT="http://127.0.0.1:9/v1")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "127.0.0.1:9" in done.stderr.strip().splitlines()[-1]
    assert read_commit(open_store(str(store)), 0, Stage.ROLLOUTS) is not None
    assert read_commit(open_store(str(store)), 0, Stage.EVALUATE) is None


@pytest.mark.long
def test_a_damaged_reward_model_is_named_with_its_remedy(reference, tmp_path):
    folder, _ = reference
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    for stage in STAGES:
        (store / keys.commit(1, stage)).unlink()
    model = store / keys.reward_model(0)
    model.write_bytes(model.read_bytes()[:1000])
    done = questloop("demo", "--store", str(store))
    assert done.returncode == ExitCode.BAD_DATA, done.stderr[-2000:]
    assert keys.reward_model(0) in done.stderr.strip().splitlines()[-1]


def test_a_second_pipeline_on_the_same_store_is_refused(reference, tmp_path):
    from questloop.storage.lease import Lease

    store = open_store(str(tmp_path / "store"))
    with Lease.acquire(store, "mossgrove-s0"):
        done = questloop("demo", "--store", str(tmp_path / "store"))
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "another pipeline" in done.stderr
