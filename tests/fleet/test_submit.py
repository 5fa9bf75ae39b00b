"""What people mistype when they queue a job: refused in one line that says what to change."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from questloop.cli.fleet import app
from questloop.errors import QuestloopError
from questloop.fleet import jobs
from questloop.fleet.database import Database

GRPO = ("--model", "org/m", "--dataset", "org/d", "--reward-function", "correctness")
RUN = ("--gpus", "0", "--", "true")


@pytest.fixture
def submit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/fleet.sqlite3")
    monkeypatch.setenv("STORE_URL", f"{tmp_path}/store")
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")

    def submit(*arguments: str, command: str = "submit") -> str:
        """The refusal, or an empty text where the job was queued."""
        result = CliRunner().invoke(app, [command, *arguments])
        if result.exit_code == 0:
            return ""
        if isinstance(result.exception, QuestloopError):
            assert "\n" not in str(result.exception)
            return str(result.exception)
        assert isinstance(result.exception, SystemExit), result.exception
        return result.output

    return submit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "m", "--dataset", "d", "--reward-function", "corectness"), "correctness"),
        (("--model", "./m", "--dataset", "d", "--reward-function", "correctness"), "begins with /"),
        (("--model", "m", "--dataset", "typo.jsonl", "--reward-function", "correctness"), "not found here"),
        (("--model", "here", "--dataset", "d", "--reward-function", "correctness"), "beginning with /"),
        ((*GRPO, "--arg", "=1"), "not the name of an option"),
        ((*GRPO, "--arg", "a b=1"), "not the name of an option"),
        ((*GRPO, "--arg", "output_dir=/tmp"), "gives this option itself"),
        ((*GRPO, "--arg", "model=other"), "gives this option itself"),
        ((*GRPO, "--", "--max_steps", "10"), "--arg NAME=VALUE"),
        (("--kind", "grpo", *RUN), "leave one out"),
        (("--gpus", "-1", *RUN[2:]), "gpus"),
        (("--memory-mb", "9" * 20, *RUN), "memory_mb"),
        (("--max-retries", "9" * 20, *RUN), "max_retries"),
        (("--priority", "9" * 20, *RUN), "priority"),
        (("--output-url", "gs://bucket/x", *RUN), "s3://bucket"),
        (("--input", "http://", *RUN), "rename"),
        (("--input", "a b.txt", *RUN), "rename"),
        (("--input", ".hidden", *RUN), "rename"),
        (("--input", "plain.txt", "--input", "here/plain.txt", *RUN), "another input"),
        (("--env", "A B=1", *RUN), "not the name of a variable"),
        (("--gpus", "0", "--", "echo", "x" * (128 << 10)), "put it into a file"),
        (("--gpus", "0", "--", "echo", "a\0b"), "NUL"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_stored(submit, tmp_path, arguments, said):
    (tmp_path / "here").mkdir()
    for name in ("a b.txt", ".hidden", "plain.txt", "here/plain.txt"):
        (tmp_path / name).write_text("x")
    assert said in submit(*arguments)
    assert jobs.find(Database(f"sqlite:///{tmp_path}/fleet.sqlite3")) == []
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "not YAML"),
        (b"[" * 5000, "not YAML"),
        (b"kind: command\narguments: [true, 1]\n", "in quotes"),
        (b"kind: command\narguments: echo hi\n", "a list of texts"),
        (b"kind: command\narguments: [echo]\nenvironment: [A]\n", "environment"),
        (b"kind: command\narguments: [echo]\ninputs: {passwd: /etc/passwd}\n", "neither http"),
        (
            b"kind: grpo\nmodel: m\ndataset: d\nreward_function: correctness\narguments: {at: 2020-01-01}\n",
            "at",
        ),
        (b"kind: grpo\nmodel: m\ndataset: d\nreward_function: correctness\narguments: hello\n", "mapping"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--env", "B=1"), ("--arg", "b=1")])
def test_a_file_of_another_shape_is_refused(submit, tmp_path, content, said, more):
    (tmp_path / "job.yaml").write_bytes(content)
    refusal = submit("-f", "job.yaml", *more)
    assert said in refusal or (more and ("--arg" in refusal or refusal == "arguments: a mapping is needed"))
    assert refusal.count("a list of texts") <= 1


def test_what_looks_odd_and_runs_is_queued(submit, tmp_path):
    (tmp_path / "data.jsonl").write_text("{}\n")
    assert (
        submit("--model", "/models/m", "--dataset", "data.jsonl", "--reward-function", "mine:f,correctness")
        == ""
    )
    assert submit("--input", "https://host/data.csv?signature=a/b", *RUN) == ""
    assert submit("--gpus", "0", "--", "echo", 'it\'s "quoted"\n$HOME `id` \x1b[31m', "x" * 100_000) == ""
    db = Database(f"sqlite:///{tmp_path}/fleet.sqlite3")
    assert {name for job in jobs.find(db) for name in job.inputs} == {"data.jsonl", "data.csv"}


def test_a_number_that_no_column_takes_is_one_line(submit):
    assert "database: " in submit("--limit", "9" * 20, command="jobs")


@pytest.mark.slow
def test_what_a_terminal_cannot_show_is_no_traceback(submit, tmp_path):
    assert submit("--gpus", "0", "--", "echo", os.fsdecode(b"caf\xe9"), "\u6f22") == ""
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(
            [sys.executable, "-m", "questloop.cli.app", "fleet", "jobs"],
            env={
                **os.environ,
                "PYTHONIOENCODING": encoding,
                "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            },
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert b"echo caf" in done.stdout or b"echo 'caf" in done.stdout


def test_a_long_command_is_cut_where_people_read_it(submit, tmp_path, capsys):
    submit("--gpus", "0", "--", "echo", "x" * 100_000)
    result = CliRunner().invoke(app, ["jobs"])
    assert len(result.stdout) < 2000
    whole = json.loads(CliRunner().invoke(app, ["jobs", "--json"]).stdout)
    assert len(whole[0]["arguments"][1]) == 100_000


def heed_sigint():
    """What a shell starts in the background, the tests perhaps, ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_a_wait_that_is_broken_off_says_that_the_job_goes_on(submit):
    waiting = subprocess.Popen(
        [sys.executable, "-m", "questloop.cli.app", "fleet", "submit", "--job", "j", "--wait", *RUN],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_sigint,
    )
    assert waiting.stderr is not None
    assert waiting.stderr.readline() == "j queued\n"
    time.sleep(0.5)
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert "questloop fleet logs -f j" in said
    assert "questloop fleet cancel j" in said
    assert "Traceback" not in said
