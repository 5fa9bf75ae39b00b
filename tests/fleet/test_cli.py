"""The commands, as a user types them, with the daemons in a process of their own."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import asyncssh
import pytest
from typer.testing import CliRunner

from questloop.cli.fleet import app
from questloop.errors import QuestloopError

from .loopback import LoopbackMachine, client_key

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "home").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(ROOT / "src"),
        "DATABASE_URL": f"sqlite:///{folder}/fleet.sqlite3",
        "NATS_URL": "nats://127.0.0.1:1",  # none: the sweep alone must do
        "SWEEP_INTERVAL_S": "0.2",
        "WATCH_INTERVAL_S": "0.2",
        "POLL_INTERVAL_S": "1",
        "PYTHONUNBUFFERED": "1",
    }
    with open(folder / "up.log", "wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "questloop.cli.app", "fleet", "up", "--cpu-slots", "2"],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        while "submit a job" not in (folder / "up.log").read_text():
            assert up.poll() is None, (folder / "up.log").read_text()
            time.sleep(0.1)
        yield folder, environment
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0, (folder / "up.log").read_text()


@pytest.fixture
def run(place, monkeypatch):
    folder, environment = place
    monkeypatch.chdir(folder)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments, code=0, input=None):
        result = CliRunner().invoke(app, list(arguments), input=input)
        error = result.exception
        if isinstance(error, QuestloopError):
            assert "\n" not in str(error)
            assert error.exit_code == code, error
            return str(error)
        assert result.exit_code == code, (result.output, error)
        return result.stdout

    return run


@pytest.mark.slow
def test_from_submit_to_fetch(place, run):
    folder, _ = place
    (folder / "in.txt").write_text("hello")
    script = 'cat in.txt; echo; cp in.txt "$QUESTLOOP_OUTPUT_DIR/out.txt"'
    output = run(
        "submit", "--gpus", "0", "--job-id", "first", "--input", "in.txt", "--wait",
        "--", "sh", "-c", script,
    )  # fmt: skip
    assert "hello" in output
    assert run("logs", "first").splitlines()[1] == "hello"
    assert "out.txt" in run("fetch", "first", "got")
    assert (folder / "got/out.txt").read_text() == "hello"
    shown = json.loads(run("show", "first", "--json"))
    assert [event["after"] for event in shown["events"]][-2:] == ["running", "completed"]
    assert "first  command  completed" in run("jobs")


@pytest.mark.slow
def test_a_job_without_a_place_is_explained_and_cancelled(place, run):
    (place[0] / "job.yaml").write_text("job_id: big\nkind: command\narguments: ['true']\ngpus: 4\n")
    assert json.loads(run("submit", "-f", "job.yaml", "--json"))["job_id"] == "big"
    assert "4 needed" in run("explain", "big")
    assert "has not run" in run("logs", "big", code=2)
    assert "cancelled" in run("cancel", "big")
    assert "local" in run("top", "--once")


@pytest.mark.slow
def test_wrong_use_is_one_line(place, run):
    assert "fleet jobs" in run("show", "absent", code=2)
    assert "gpus" in run("submit", "--gpus", "-1", "--", "true", code=2)
    (place[0] / "typo.yaml").write_text("priorty: 2\n")
    assert "priorty: no such field; there are job_id, kind," in run("submit", "-f", "typo.yaml", code=2)
    assert "--arg" in run("submit", "--arg", "x", "--", "true", code=2)
    assert "one of queued" in run("jobs", "--status", "dead", code=2)
    assert "fleet vm list" in run("vm", "test", "absent", code=2)


@pytest.mark.slow
def test_a_machine_is_added_by_its_fingerprint_and_looked_at(place, run, tmp_path):
    key, path = client_key(tmp_path)
    with loopback_in_thread(tmp_path, key) as (machine, on_loop):
        where = ["127.0.0.1", "--port", str(machine.port), "--user", "q", "--key", str(path)]
        assert "not trusted" in run("vm", "add", "gpu1", *where, code=1, input="n\n")
        assert "not trusted" in run("vm", "add", "gpu1", *where, "--fingerprint", "SHA256:x", code=1)
        shown = machine.host_key.get_fingerprint()
        run("vm", "add", "gpu1", *where, "--fingerprint", shown)
        looked = run("vm", "test", "gpu1", code=1)
        assert "ok   gpus: 2 GPU(s)" in looked
        assert "try: questloop fleet vm setup gpu1" in looked
        machine.host_key = asyncssh.generate_private_key("ssh-ed25519")
        on_loop(machine.reboot())
        looked = run("vm", "test", "gpu1", code=1)
        assert "`questloop fleet vm trust gpu1`" in looked
        assert "try:" not in looked
        run("vm", "trust", "gpu1", "--fingerprint", machine.host_key.get_fingerprint())
        assert "host key verified" in run("vm", "test", "gpu1", code=1)
        on_loop(machine.cut())
        assert f"127.0.0.1:{machine.port}: Connection refused" in run("vm", "test", "gpu1", code=1)
        assert "Connection refused" in run("vm", "trust", "gpu1", code=69)
        run("vm", "drain", "gpu1")
        assert json.loads(run("vm", "list", "--json"))[0]["drain_reason"] == "operator"
        assert "drained: operator" in run("vm", "list")
        run("vm", "drain", "gpu1", "--off")
        run("vm", "remove", "gpu1")


@contextlib.contextmanager
def loopback_in_thread(folder, key):
    """A loopback machine with an event loop of its own: the commands bring theirs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    machine = LoopbackMachine("gpu1", folder / "gpu1", key)

    def on_loop(work):
        asyncio.run_coroutine_threadsafe(work, loop).result(30)

    on_loop(machine.start())
    try:
        yield machine, on_loop
    finally:
        on_loop(machine.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to run: a grpo job needs model, dataset, reward_function"),
        (("--kind", "command"), "nothing to run: a command job needs a program"),
        (("--", ""), "nothing to run: a command job needs a program"),
        (("--kind", "judge", "--model", "m"), "nothing to run: a judge job needs dataset"),
        (("--env", "1A=b", "--", "true"), "not the name of a variable"),
        (("--env", "CUDA_VISIBLE_DEVICES=0", "--", "true"), "the fleet sets this one itself"),
        (("--env", "A=env:S3_SECRET_KEY", "--", "true"), "a setting of the dispatcher"),
    ],
)
def test_submit_refuses_what_cannot_run(tmp_path, monkeypatch, arguments, said):
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/fleet.sqlite3")
    result = CliRunner().invoke(app, ["submit", *arguments])
    assert isinstance(result.exception, QuestloopError)
    assert said in str(result.exception)
    assert result.exception.exit_code == 2


def test_no_value_of_an_environment_is_listed_or_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/fleet.sqlite3")
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    given = ["--env", "TOKEN=s3cret", "--env", "HF=file:hf"]
    made = CliRunner().invoke(app, ["submit", "--job-id", "j", *given, "--", "python", "a b.py"])
    assert made.exit_code == 0, made.output
    for command in (["jobs"], ["jobs", "--json"], ["show", "j"], ["show", "j", "--json"], ["explain", "j"]):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0
        assert "s3cret" not in shown.output
    assert "python 'a b.py'" in CliRunner().invoke(app, ["jobs"]).output
    assert "file:hf" in CliRunner().invoke(app, ["show", "j"]).output


@pytest.mark.slow
def test_wait_shows_attempts_exit_code_and_the_log_s_end(place, run):
    command = ["submit", "--gpus", "0", "--wait", "--", "sh", "-c", "echo last words; exit 3"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3
    assert "last words" in result.stdout
    assert "exit code 3, 1 attempt" in result.stderr
    assert "on local: failed (error), exit code 3" in result.stderr
    told = json.loads(CliRunner().invoke(app, [*command[:4], "--json", *command[4:]]).stdout)
    assert (told["exit_code"], len(told["attempts"])) == (3, 1)
    assert told["log_end"].endswith("last words\n")
