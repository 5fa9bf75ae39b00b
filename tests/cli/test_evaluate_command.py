import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.pipeline.playing import play
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.episodes.run import open_run
from questloop.errors import BadDataError, QuestloopError, UnavailableError, UsageError
from questloop.judges.labels import write_labels
from questloop.judges.scores import read_scores
from questloop.report.report import REPORT_KEY
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import open_store

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played")
    play(open_store(str(folder)), slots=4, steps=900)
    return folder


@pytest.fixture
def store(played, tmp_path):
    """A fresh copy of the played epoch."""
    import shutil

    return open_store(str(shutil.copytree(played, tmp_path / "store")))


def run(store, *arguments):
    result = CliRunner().invoke(app, ["evaluate", "--store", store.url, *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_json_has_agreement_tau_brier_and_invalid_counts(store):
    document = json.loads(run(store, "--json").stdout)
    assert {"agreement", "tau", "brier", "invalid", "alpha", "judges", "labels"} <= set(document)
    assert (document["judged"], document["invalid"]) == (12, {})
    assert document["agreement"] is not None
    commit = read_commit(store, 0, Stage.EVALUATE)
    assert {item.key for item in commit.objects} == {keys.scores(0), keys.evaluation(0)}


def test_the_table_names_the_judges_for_what_they_are(store):
    printed = run(store).stdout
    assert "rule-based-state" in printed
    assert "deterministic" in printed


def test_a_finished_pass_is_not_run_again(store):
    run(store)
    before = store.get(keys.scores(0))
    again = run(store, "--budget", "3")
    assert "judged already" in again.stderr
    assert store.get(keys.scores(0)) == before


def test_restart_judges_anew_until_a_reward_model_was_learned(store):
    run(store)
    document = json.loads(run(store, "--restart", "--votes", "1", "--json").stdout)
    assert document["judges"]["state"]["votes"] == 12
    assert len(read_scores(store, 0)[0].judges["state"].votes) == 1
    commit_stage(store, 0, Stage.REWARD_MODEL, 9, [])
    with pytest.raises(UsageError, match="--measure"):
        run(store, "--restart")


def test_measuring_leaves_the_scores_alone(store):
    document = json.loads(run(store, "--measure", "--votes", "1", "--json").stdout)
    assert document["judged"] == 12
    assert not store.exists(keys.scores(0))
    assert read_commit(store, 0, Stage.EVALUATE) is None


def test_agreement_with_a_persons_labels_is_told(store):
    run(store)
    write_labels(store, 0, {line.segment_id: line.weighted for line in read_scores(store, 0)})
    assert json.loads(run(store, "--json").stdout)["labels"]["weighted"] == 1.0


def test_an_unreachable_judge_leaves_nothing_half_written(store, monkeypatch):
    monkeypatch.setenv("LLM_ENDPOINT", "http://127.0.0.1:9/v1")
    with pytest.raises(UnavailableError, match="cannot connect"):
        run(store)
    assert not store.exists(keys.scores(0))
    assert read_commit(store, 0, Stage.EVALUATE) is None


@pytest.mark.slow
def test_killed_with_no_warning_it_goes_on(store):
    command = [sys.executable, str(ROOT / "scripts/run_evaluator.py"), "--store", store.url, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    folder = keys.judgements_prefix(0)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not any(store.list(folder)):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {entry.key: store.get(entry.key) for entry in store.list(folder)}
    assert kept
    assert read_commit(store, 0, Stage.EVALUATE) is None
    document = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert document["judged"] == 12
    assert len(list(store.list(folder))) == 36
    assert all(store.get(key) == data for key, data in kept.items())


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate",),
        ("evaluate", "--measure"),
        ("reward-model",),
        ("reward-model", "--along-walkthrough"),
        ("rollouts", "--epoch", "1"),
        ("report",),
        ("judge", "compare"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("there", [True, False], ids=["empty", "missing"])
def test_a_store_without_what_a_command_needs_is_told_and_left_as_it_was(tmp_path, arguments, there):
    folder = tmp_path / "store"
    if there:
        folder.mkdir()
    result = CliRunner().invoke(app, [*arguments, "--store", str(folder)])
    assert isinstance(result.exception, QuestloopError)
    assert str(folder) in str(result.exception)
    assert list(tmp_path.rglob("*")) == [folder] * there


def test_a_run_without_an_epoch_has_no_report(tmp_path):
    store = open_store(str(tmp_path))
    open_run(store, load())
    with pytest.raises(BadDataError, match="questloop pipeline"):
        CliRunner().invoke(app, ["report", str(tmp_path)], catch_exceptions=False)
    assert not store.exists(REPORT_KEY)
