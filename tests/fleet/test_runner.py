"""The runner on a machine: real processes under a temporary home folder."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from questloop.fleet import agent
from questloop.fleet.transport import LocalTransport

SLOT = "GPU-1"


@pytest.fixture
def home(tmp_path):
    yield tmp_path
    for pid in processes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def machine(home):
    return Machine(home)


class Machine:
    """A home folder and what a dispatcher would ask there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.transport = LocalTransport(home)

    async def call(self, command, **request):
        return await agent.call(self.transport, command, request)

    async def launch(self, argv, job_id="j", attempt=1, floor=None, slots=(SLOT,), shared=False, **values):
        hello = await self.call("hello")
        spec = {
            "job_id": job_id,
            "attempt": attempt,
            "boot_id": hello["boot_id"],
            "deadline": hello["clock"] + 600,
            "slots": [{"uuid": slot, "floor": floor or attempt} for slot in slots],
            "shared": shared,
            "cuda_devices": list(slots),
            "argv": list(argv),
            "heartbeat_s": 0.2,
            "grace_s": 0.5,
        } | values
        return await self.call("launch", **spec)

    async def state(self, job_id="j", attempt=1, **values):
        reply = await self.call("watch", attempts=[{"job_id": job_id, "attempt": attempt} | values])
        return reply["attempts"][str(attempt)]

    async def ended(self, job_id="j", attempt=1):
        for _ in range(600):
            state = await self.state(job_id, attempt)
            if state["state"] not in ("running", "ending"):
                return state
            await asyncio.sleep(0.05)
        raise AssertionError("does not end")

    def file(self, name, job_id="j", attempt=1):
        return (self.home / agent.attempt_path(job_id, attempt, name)).read_text()

    async def written(self, path, attempt=1):
        """The content of a file of the job's, once it is there."""
        for _ in range(600):
            file = self.home / agent.attempt_path("j", attempt, path)
            if file.exists() and file.read_text().strip():
                return file.read_text()
            await asyncio.sleep(0.05)
        raise AssertionError(f"{path} is not written")


def processes_of(home: Path) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(home).encode() in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found - {os.getpid()}


def sh(script):
    return ["sh", "-c", script]


async def test_a_job_runs_detached_and_leaves_its_exit_status_and_log(machine):
    state = await machine.launch(sh('echo "on $CUDA_VISIBLE_DEVICES as $QUESTLOOP_JOB_ID"; exit 7'))
    assert state["state"] in ("running", "exited")
    state = await machine.ended()
    assert state["exit"]["exit_code"] == 7
    assert state["exit"]["ending"] == "exited"
    assert machine.file("log") == f"on {SLOT} as j\n"
    assert state["log_size"] == len(machine.file("log"))


async def test_launching_twice_starts_once(machine):
    script = sh("echo started >> ../../../../count; echo up > up; sleep 600")
    states = await asyncio.gather(*(machine.launch(script) for _ in range(4)))
    assert {state["state"] for state in states} == {"running"}
    await machine.written("work/up")
    await machine.call("kill", job_id="j", attempt=1)
    await machine.ended()
    assert (machine.home / ".questloop/count").read_text() == "started\n"


async def test_arguments_are_literal(machine):
    values = ["a b", "x'; touch m; '", "$(touch m)", "two\nlines", "-rf", "*", "`touch m`", ""]
    code = "import sys, json; json.dump(sys.argv[1:], open('argv', 'w'))"
    arguments = [*(f"--model={value}" for value in values), *values]
    await machine.launch([sys.executable, "-c", code, *arguments])
    await machine.ended()
    assert json.loads(machine.file("work/argv")) == arguments
    assert not list(machine.home.rglob("m"))


async def test_the_whole_group_ends_on_kill_also_what_left_it(machine):
    script = (
        "setsid sh -c 'echo $$ > own; sleep 600' & trap '' TERM; sleep 600 & echo up > up; wait; sleep 600"
    )
    await machine.launch(sh(script))
    await machine.written("work/own")
    await machine.written("work/up")
    assert len(processes_of(machine.home)) >= 3
    await machine.call("kill", job_id="j", attempt=1)
    state = await machine.ended()
    assert state["exit"]["ending"] == "cancelled"
    assert not processes_of(machine.home)


async def test_an_attempt_killed_before_its_launch_never_starts(machine):
    state = await machine.call("kill", job_id="j", attempt=1)
    assert state["exit"] == {"ending": "cancelled", "started": False, "exit_code": None}
    state = await machine.launch(sh("touch ../../../../../marker"))
    assert state["state"] == "exited"
    assert not (machine.home / "marker").exists()


async def test_a_lower_fence_is_refused_by_slot_and_by_job(machine):
    await machine.launch(["true"], attempt=5)
    await machine.ended(attempt=5)
    state = await machine.launch(["true"], job_id="other", attempt=4)
    assert (state["state"], state["reason"]) == ("refused", "stale_fence")
    state = await machine.launch(["true"], attempt=3, slots=("GPU-2",))
    assert (state["state"], state["reason"]) == ("refused", "stale_fence")


async def test_a_slot_in_use_is_refused(machine):
    await machine.launch(["sleep", "60"], attempt=1)
    state = await machine.launch(["true"], job_id="other", attempt=2)
    assert (state["state"], state["reason"]) == ("refused", "slot_in_use")
    await machine.call("kill", job_id="j", attempt=1)
    await machine.ended()
    state = await machine.launch(["true"], job_id="other", attempt=2)
    assert state["state"] in ("running", "exited")


async def test_shared_jobs_use_a_slot_together_in_any_order(machine):
    await machine.launch(["sleep", "60"], job_id="b", attempt=2, floor=1, shared=True)
    state = await machine.launch(["sleep", "60"], job_id="a", attempt=1, floor=1, shared=True)
    assert state["state"] == "running"
    state = await machine.launch(["true"], job_id="c", attempt=3)
    assert state["reason"] == "slot_in_use"


async def test_another_boot_and_a_passed_deadline_are_refused(machine):
    state = await machine.launch(["true"], boot_id="another")
    assert state["reason"] == "machine_rebooted"
    state = await machine.launch(["true"], deadline=0)
    assert state["reason"] == "lease_expired"
    assert (await machine.state())["state"] == "absent"


async def test_prune_removes_what_ended_long_ago_and_nothing_else(machine):
    await machine.launch(["sh", "-c", "echo said; echo content > $QUESTLOOP_OUTPUT_DIR/x"])
    await machine.ended()
    folder = machine.home / ".questloop/jobs/j/1"
    shutil.rmtree(folder / "output")  # as where the next attempt has taken it over
    assert (await machine.call("prune", older_than_s=3600))["removed"] == 0
    assert (folder / "log").read_text() == "said\n"
    pruned = await machine.call("prune", older_than_s=0)
    assert pruned["removed"] == 1
    assert pruned["freed_bytes"] > 0
    assert not {"work", "output", "log", "spec.json"} & {path.name for path in folder.iterdir()}
    assert (await machine.state())["state"] == "exited", "a late launch or look still learns how it ended"
    assert (await machine.call("prune", older_than_s=0))["removed"] == 0


async def test_prune_spares_what_runs(machine):
    await machine.launch(["sleep", "600"])
    assert (await machine.call("prune", older_than_s=0))["removed"] == 0
    assert (await machine.state())["state"] == "running"


async def test_a_runner_without_word_ends_its_job(machine):
    await machine.launch(["sleep", "600"])
    await machine.transport.put(agent.attempt_path("j", 1, "lease"), b"0.0")  # as if it had passed
    state = await machine.ended()
    assert state["exit"]["ending"] == "lease_expired"
    assert not processes_of(machine.home)


async def test_a_later_deadline_keeps_the_job_and_an_earlier_one_is_ignored(machine):
    hello = await machine.call("hello")
    await machine.launch(["sleep", "600"], deadline=hello["clock"] + 600)
    await machine.state(deadline=hello["clock"] + 1200)
    await machine.state(deadline=hello["clock"] + 900)
    assert float(machine.file("lease")) == hello["clock"] + 1200
    assert (await machine.state())["state"] == "running"


async def test_a_dead_runner_is_told_and_what_it_left_is_ended(machine):
    await machine.launch(sh("setsid sleep 600 & echo up > up; sleep 600"))
    await machine.written("work/up")
    os.kill(int(machine.file("pid")), signal.SIGKILL)
    state = await machine.ended()
    assert state["state"] == "gone"
    assert not processes_of(machine.home)


async def test_a_stopped_runner_shows_by_its_heartbeat_and_can_be_forced(machine):
    await machine.launch(sh("echo up > up; sleep 600"))
    await machine.written("work/up")
    os.kill(int(machine.file("pid")), signal.SIGSTOP)
    state = await machine.state()
    while state["heartbeat_age_s"] < 1:
        await asyncio.sleep(0.1)
        state = await machine.state()
    assert state["state"] == "running"
    await machine.call("kill", job_id="j", attempt=1, force=True)
    assert (await machine.ended())["state"] == "gone"
    assert not processes_of(machine.home)


async def test_a_missing_command_and_a_signal_are_told_apart(machine):
    await machine.launch(["no-such-command"])
    state = await machine.ended()
    assert state["exit"]["exit_code"] == 127
    assert "command not found: no-such-command" in machine.file("log")
    await machine.launch(sh("kill -9 $$"), job_id="k", attempt=2)
    state = await machine.ended("k", 2)
    assert (state["exit"]["ending"], state["exit"]["exit_code"]) == ("signalled", -9)


async def test_staged_inputs_lie_in_the_jobs_folder(machine):
    await machine.transport.put(agent.staging_path("j", 1, "data.jsonl"), b"{}\n")
    await machine.launch(["cp", ["work", "data.jsonl"], ["output", "copy"]])
    assert (await machine.ended())["exit"]["exit_code"] == 0
    assert machine.file("output/copy") == "{}\n"


async def test_the_journal_records_begin_and_end(machine):
    await machine.launch(["true"])
    await machine.ended()
    lines = [
        json.loads(line) for line in (machine.home / ".questloop/journal.jsonl").read_text().splitlines()
    ]
    assert [(line["event"], line["slots"]) for line in lines] == [("begin", [SLOT]), ("end", [SLOT])]


async def test_job_ids_cannot_leave_the_folder(machine):
    with pytest.raises(agent.RunnerError, match="job id"):
        await machine.launch(["true"], job_id="../x")


async def test_serve_answers_a_line_for_a_line(machine):
    await machine.launch(["sleep", "600"])
    lines = [
        ["poll", {"queries": {}, "timeout_s": 5}],
        ["watch", {"attempts": [{"job_id": "j", "attempt": 1}]}],
        ["watch", {"attempts": [{"job_id": "k", "attempt": 2}]}],
    ]
    request = "".join(json.dumps(line) + "\n" for line in lines).encode()
    result = await machine.transport.run(["python3", "-I", "-S", agent.source()[0], "serve"], request)
    poll, running, absent = (json.loads(answer) for answer in result.stdout.splitlines() if answer)
    assert poll["smi"] == {}
    assert running["attempts"]["1"]["state"] == "running"
    assert absent["attempts"] == {"2": {"state": "absent"}}


async def test_only_looks_are_served(machine):
    """A launch forks a process that stays; it gets a process of its own."""
    with pytest.raises(agent.RunnerError, match="KeyError: 'launch'"):
        await agent.look(machine.transport, "launch", {})


async def test_a_hanging_nvidia_smi_is_started_once(machine, monkeypatch):
    bin_folder = machine.home / "bin"
    bin_folder.mkdir()
    smi = bin_folder / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho x >> $HOME/starts\nsetsid sleep 600 &\nwait\n")  # outlives a kill
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    machine.transport = LocalTransport(machine.home)  # takes its PATH when it is made
    queries = {"gpus": ["--query-gpu=index"], "apps": ["--query-compute-apps=pid"]}
    # Time enough to start it on a slow machine.
    first = await machine.call("poll", queries=queries, timeout_s=3)
    second = await machine.call("poll", queries=queries, timeout_s=0.5)
    assert first["smi"]["error"] == second["smi"]["error"] == "hung"
    assert first["boot_id"]
    assert (machine.home / "starts").read_text() == "x\n"


# --- what a job leaves behind ---

ESCAPES = {
    "own session": "setsid sleep 600 &",
    "cleared environment": "env -i setsid sleep 600 &",
    "parent gone": "(env -i setsid sh -c 'sleep 600 & sleep 600' &)",
    "closed files": "env -i setsid sh -c 'exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&-; exec sleep 600' &",
    "another name": "env -i setsid bash -c 'exec -a kworker/0:1 sleep 600' &",
    "many": "for i in 1 2 3 4 5 6 7 8 9; do env -i setsid sleep 600 & done",
}


def sleepers(marker):
    """Processes below this test's home, by their working folder, which no disguise changes."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd").startswith(str(marker)):
                found.add(int(entry.name))
    return found


@pytest.fixture
def tidy(home):
    yield
    for pid in sleepers(home):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


async def begun(machine, script, **values):
    await machine.launch(["bash", "-c", f"{script}\necho up > up; sleep 600"], **values)
    await machine.written("work/up")
    await asyncio.sleep(0.6)  # some beats


@pytest.mark.parametrize("escape", ESCAPES)
async def test_nothing_that_a_job_started_outlives_it(machine, tidy, escape):
    await begun(machine, ESCAPES[escape])
    assert len(sleepers(machine.home)) >= 3
    await machine.call("kill", job_id="j", attempt=1)
    assert (await machine.ended())["exit"]["ending"] == "cancelled"
    assert not sleepers(machine.home)
    assert (await machine.launch(["true"], job_id="k", attempt=2))["state"] != "refused"


@pytest.mark.parametrize("escape", ESCAPES)
async def test_nothing_outlives_a_killed_runner(machine, tidy, escape):
    await begun(machine, ESCAPES[escape])
    os.kill(int(machine.file("pid")), signal.SIGKILL)
    assert (await machine.ended())["state"] == "gone"
    assert not sleepers(machine.home)


async def test_disguised_processes_are_the_fleet_s_own(machine, tidy):
    await begun(machine, "env -i setsid bash -c 'echo $$ > pid2; exec sleep 600' &")
    disguised = int(await machine.written("work/pid2"))
    reply = await machine.call("poll", queries={}, timeout_s=5)
    assert disguised in reply["own_pids"]
    assert reply["locked"] == [SLOT]


@pytest.mark.parametrize("removed", ["jobs/j/1", "jobs/j", ""])
async def test_a_removed_folder_makes_no_second_start(machine, tidy, removed):
    script = "echo started >> $HOME/count; env -i setsid sleep 600 &"
    await begun(machine, script)
    shutil.rmtree(machine.home / ".questloop" / removed)
    state = await machine.state()
    for _ in range(200):
        if state["state"] in ("removed", "absent"):
            break
        await asyncio.sleep(0.1)
        state = await machine.state()
    assert state["state"] == ("removed" if removed else "absent")
    assert not sleepers(machine.home)
    if removed:
        again = await machine.launch(["bash", "-c", script])
        assert again["state"] == "removed"
    assert (machine.home / "count").read_text() == "started\n"


async def test_a_removed_folder_is_no_unstarted_attempt(machine, tidy):
    """What bars an attempt that was never launched must not bar, and so hide, one that runs."""
    await begun(machine, "true")
    shutil.rmtree(machine.home / ".questloop/jobs/j")
    state = await machine.call("kill", job_id="j", attempt=1)
    assert state["state"] in ("ending", "removed")


async def test_a_job_s_next_attempt_waits_for_the_last_to_be_gone(machine, tidy):
    await begun(machine, "true", slots=())
    reply = await machine.launch(["true"], attempt=2, slots=("GPU-2",))
    assert (reply["state"], reply["reason"]) == ("refused", "slot_in_use")


async def test_an_attempt_goes_on_with_the_output_of_the_last(machine):
    await machine.launch(sh("echo 1 > $QUESTLOOP_OUTPUT_DIR/checkpoint"))
    await machine.ended()
    await machine.launch(sh("cat $QUESTLOOP_OUTPUT_DIR/checkpoint"), attempt=2, keep_output=True)
    await machine.ended(attempt=2)
    assert machine.file("log", attempt=2) == "1\n"
    await machine.launch(sh("ls $QUESTLOOP_OUTPUT_DIR"), attempt=3)
    await machine.ended(attempt=3)
    assert machine.file("log", attempt=3) == "", "a plain command begins with nothing"


async def test_variables_reach_the_job_and_no_file(machine):
    await machine.launch(sh('test "$TOKEN" = s3cret && exit 5'), environment={"TOKEN": "s3cret"})
    assert (await machine.ended())["exit"]["exit_code"] == 5
    for path in (machine.home / ".questloop").rglob("*"):
        if path.is_file():
            assert b"s3cret" not in path.read_bytes().replace(b'test "$TOKEN" = s3cret', b"").replace(
                b'test \\"$TOKEN\\" = s3cret', b""
            ), path
            assert path.stat().st_mode & 0o077 == 0 or path.suffix == ".py", path


async def test_the_daemon_s_environment_is_not_the_job_s(home, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://fleet:s3cret@db/fleet")
    monkeypatch.setenv("S3_SECRET_KEY", "s3cret")
    machine = Machine(home)
    await machine.launch(sh("env"))
    await machine.ended()
    said = machine.file("log")
    assert "s3cret" not in said
    assert f"HOME={home}" in said
