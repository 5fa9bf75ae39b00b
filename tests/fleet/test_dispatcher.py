"""Dispatchers, poller and requeue manager over SSH to loopback machines with real processes."""

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from questloop.fleet import attempts, claims, jobs, machines
from questloop.fleet.claims import Claimed, ClaimPolicy
from questloop.fleet.database import DatabaseUnavailable
from questloop.fleet.dispatcher import GlobalJobDispatcher
from questloop.fleet.models import VM, Attempt, Job
from questloop.fleet.poller import GPUPoller
from questloop.fleet.requeue import RequeueManager
from questloop.fleet.states import FailureReason, JobStatus, VMState
from questloop.fleet.transport import TransportPool
from questloop.settings import FleetSettings, StoreSettings

from .helpers import check_consistent, submit
from .loopback import LoopbackMachine, client_key, gpu_uuid


@pytest.fixture
async def fleet(sqlite_db, tmp_path):
    async with running_fleet(sqlite_db, tmp_path) as fleet:
        yield fleet


@asynccontextmanager
async def running_fleet(db, folder, count=1, gpus=2):
    fleet = Fleet(db, folder)
    try:
        for number in range(count):
            await fleet.add(f"m{number}", gpus)
        yield fleet
    finally:
        await fleet.close()


class Fleet:
    """Machines, and the daemons stepped by hand: a test says who does what when."""

    def __init__(self, db, folder):
        self.db = db
        self.folder = folder
        self.key, self.key_path = client_key(folder)
        self.settings = FleetSettings(
            log_dir=folder / "logs", retry_backoff_s=0, ssh_timeout_s=60, poll_timeout_s=30, lease_s=600
        )
        self.machines: dict[str, LoopbackMachine] = {}
        self.poller = GPUPoller(db, self.settings, TransportPool(60))
        self.requeue = RequeueManager(db, self.settings)
        self.dispatchers: list[GlobalJobDispatcher] = []

    async def add(self, name, gpus):
        machine = LoopbackMachine(name, self.folder / name, self.key, gpus)
        await machine.start()
        self.machines[name] = machine
        machines.add(
            self.db,
            name,
            "127.0.0.1",
            port=machine.port,
            user="q",
            ssh_key_path=str(self.key_path),
            host_key=machine.public_key,
        )
        await self.poller.poll_round()
        return machine

    def dispatcher(self, **changed):
        settings = self.settings.model_copy(update=changed)
        store = StoreSettings(store_url=str(self.folder / "store"))
        dispatcher = GlobalJobDispatcher(self.db, settings, store, pool=TransportPool(settings.ssh_timeout_s))
        self.dispatchers.append(dispatcher)
        return dispatcher

    async def step(self, dispatcher):
        """One sweep and one look, with all that they start."""
        await dispatcher.sweep()
        await self.settled(dispatcher)
        await dispatcher.look()
        await self.settled(dispatcher)

    async def settled(self, dispatcher):
        while dispatcher._tasks:
            await asyncio.gather(*dispatcher._tasks, return_exceptions=True)

    async def until(self, job_id, *wanted, dispatcher, requeue=False):
        for _ in range(400):
            await self.step(dispatcher)
            if requeue:
                self.requeue.scan()
            job = jobs.get(self.db, job_id)
            if job.status in wanted:
                return job
            await asyncio.sleep(0.05)
        raise AssertionError(f"{job_id} is {job.status}, {job.failure_reason}, {job.failure_detail}")

    async def launched(self, dispatcher, **values):
        """A job that runs until it is told to end."""
        job_id = submit(self.db, **({"arguments": ["sleep", "600"]} | values))
        await dispatcher.sweep()
        await self.settled(dispatcher)
        job = jobs.get(self.db, job_id)
        assert job.status is JobStatus.RUNNING
        return job

    def processes(self):
        """What runs on the machines but what answers looks, which goes with its connection."""
        found = set().union(*(machine.processes() for machine in self.machines.values()))
        return {pid for pid in found if b"serve" not in _command_line(pid)}

    def journal(self, name="m0"):
        path = self.machines[name].home / ".questloop/journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def close(self):
        for dispatcher in self.dispatchers:
            await dispatcher.pool.close()
        await self.poller.pool.close()
        for machine in self.machines.values():
            await machine.stop()


def _command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def appears(path):
    """Wait for a file that another process writes."""
    for _ in range(1200):
        if path.exists():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} does not appear")


async def test_a_job_goes_through_and_its_log_comes_home(fleet):
    dispatcher = fleet.dispatcher()
    job_id = submit(fleet.db, arguments=["sh", "-c", "echo GPUs: $CUDA_VISIBLE_DEVICES"], gpus=2)
    job = await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    assert job.exit_code == 0
    text = (fleet.folder / "logs" / f"{job_id}.log").read_text()
    assert text.splitlines()[1] == f"GPUs: {gpu_uuid('m0', 0)},{gpu_uuid('m0', 1)}"
    assert machines.get(fleet.db, "m0").available_gpus == 2
    check_consistent(fleet.db)


async def test_without_a_free_gpu_a_job_is_pending_until_there_is_one(fleet):
    dispatcher = fleet.dispatcher()
    long = await fleet.launched(dispatcher, gpus=2)
    waiting = submit(fleet.db)
    await fleet.step(dispatcher)
    assert jobs.get(fleet.db, waiting).status is JobStatus.PENDING
    jobs.cancel(fleet.db, long.job_id)
    await fleet.until(long.job_id, JobStatus.CANCELLED, dispatcher=dispatcher)
    await fleet.until(waiting, JobStatus.COMPLETED, dispatcher=dispatcher)


async def test_cancel_ends_the_whole_group(fleet):
    dispatcher = fleet.dispatcher()
    job = await fleet.launched(dispatcher, arguments=["sh", "-c", "setsid sleep 600 & sleep 600"])
    assert jobs.cancel(fleet.db, job.job_id) is JobStatus.RUNNING
    await fleet.until(job.job_id, JobStatus.CANCELLED, dispatcher=dispatcher)
    assert not fleet.processes()


async def test_cancelled_between_claim_and_launch_is_not_launched(fleet):
    dispatcher = fleet.dispatcher()
    job_id = submit(fleet.db, arguments=["sh", "-c", "touch $HOME/marker"])
    claimed = claims.claim(fleet.db, dispatcher.policy)
    jobs.cancel(fleet.db, job_id)
    await dispatcher.supervisor.launch(claimed.attempt)
    assert jobs.get(fleet.db, job_id).status is JobStatus.CANCELLED
    assert not fleet.journal()


async def test_cancelled_after_arming_is_not_launched_by_a_late_dispatcher(fleet):
    """The first dispatcher has committed `arm` and stops; its launch arrives after the cancellation."""
    first, second = fleet.dispatcher(), fleet.dispatcher()
    job_id = submit(fleet.db)
    claimed = claims.claim(fleet.db, first.policy)
    transport = await first.pool.get(machines.get(fleet.db, "m0"))
    from questloop.fleet import agent

    hello = await agent.call(transport, "hello", {})
    assert attempts.arm(fleet.db, claimed.attempt, first.owner, hello["boot_id"], 600)
    attempts.let_go(fleet.db, first.owner)
    jobs.cancel(fleet.db, job_id)
    await fleet.until(job_id, JobStatus.CANCELLED, dispatcher=second)
    spec = {
        "job_id": job_id,
        "attempt": claimed.attempt,
        "boot_id": hello["boot_id"],
        "deadline": hello["clock"] + 600,
        "slots": [{"uuid": gpu_uuid("m0", 0), "floor": claimed.attempt}],
        "shared": False,
        "cuda_devices": [],
        "argv": ["true"],
    }
    assert (await agent.call(transport, "launch", spec))["state"] == "exited"
    assert not fleet.journal()


@pytest.mark.parametrize("crash", ["after_claim", "after_arm", "after_launch"])
async def test_a_dispatcher_that_dies_at_any_point_is_followed_by_another(fleet, crash, monkeypatch):
    first, second = fleet.dispatcher(), fleet.dispatcher()
    job_id = submit(fleet.db, arguments=["sh", "-c", "echo once >> $HOME/count"])
    claimed = claims.claim(fleet.db, first.policy)
    from questloop.fleet import agent, supervisor

    class Died(BaseException):
        pass

    call = agent.call

    async def dying(transport, command, request):
        if command == "hello" and crash == "after_claim":
            raise Died
        if command == "launch" and crash == "after_arm":
            raise Died
        reply = await call(transport, command, request)
        if command == "launch":
            raise Died
        return reply

    monkeypatch.setattr(supervisor.agent, "call", dying)
    with pytest.raises(Died):
        await first.supervisor.launch(claimed.attempt)
    monkeypatch.setattr(supervisor.agent, "call", call)
    attempts.let_go(fleet.db, first.owner)
    await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=second)
    assert (fleet.machines["m0"].home / "count").read_text() == "once\n"
    assert len([line for line in fleet.journal() if line["event"] == "begin"]) == 1


async def test_a_dispatcher_presumed_dead_changes_nothing_when_it_wakes(fleet):
    first, second = fleet.dispatcher(), fleet.dispatcher()
    job_id = submit(fleet.db)
    claimed = claims.claim(fleet.db, first.policy)
    attempts.let_go(fleet.db, first.owner)
    await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=second)
    await first.supervisor.launch(claimed.attempt)
    await first.look()
    assert jobs.get(fleet.db, job_id).status is JobStatus.COMPLETED
    assert len(fleet.journal()) == 2


async def test_a_job_that_ends_while_ssh_is_down_is_found_ended(fleet):
    dispatcher = fleet.dispatcher()
    machine = fleet.machines["m0"]
    script = "echo before; while ! test -e go; do sleep 0.05; done; echo after"
    job = await fleet.launched(dispatcher, arguments=["sh", "-c", script])
    await fleet.step(dispatcher)
    await machine.cut()
    (machine.home / f".questloop/jobs/{job.job_id}/{job.attempt}/work/go").touch()
    exit_file = machine.home / f".questloop/jobs/{job.job_id}/{job.attempt}/exit.json"
    await appears(exit_file)
    await fleet.step(dispatcher)
    assert jobs.get(fleet.db, job.job_id).status is JobStatus.RUNNING, "held"
    assert machines.get(fleet.db, "m0").state is VMState.UNREACHABLE
    await machine.restore()
    job = await fleet.until(job.job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    assert job.retry_count == 0
    lines = (fleet.folder / "logs" / f"{job.job_id}.log").read_text().splitlines()
    assert lines[1:] == ["before", "after"]


async def test_a_machine_that_is_down_at_the_launch_costs_the_job_nothing(fleet):
    dispatcher = fleet.dispatcher()
    await fleet.machines["m0"].cut()
    job_id = submit(fleet.db)
    await fleet.step(dispatcher)
    job = jobs.get(fleet.db, job_id)
    assert job.status in (JobStatus.QUEUED, JobStatus.PENDING)
    assert job.retry_count == 0
    await fleet.machines["m0"].restore()
    await fleet.poller.poll_round()
    await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)


async def test_a_database_that_is_away_for_a_look_costs_a_line_of_log(fleet, monkeypatch):
    dispatcher = fleet.dispatcher()
    job_id = submit(fleet.db)
    finish = attempts.finish

    def away(*arguments):
        monkeypatch.setattr(attempts, "finish", finish)
        raise DatabaseUnavailable("database: gone for a moment")

    monkeypatch.setattr(attempts, "finish", away)
    with capture_logs() as said:
        await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    interrupted = [line for line in said if line["event"].startswith("watch_")]
    assert [line["event"] for line in interrupted] == ["watch_interrupted"]
    assert interrupted[0]["error"] == "database: gone for a moment"


async def test_a_rebooted_machine_s_jobs_are_lost_and_run_again(fleet):
    dispatcher = fleet.dispatcher()
    machine = fleet.machines["m0"]
    script = "test -e $HOME/second && exit 0; touch $HOME/second; sleep 600"
    job = await fleet.launched(dispatcher, arguments=["sh", "-c", script])
    await appears(machine.home / "second")
    await machine.reboot()
    job = await fleet.until(job.job_id, JobStatus.LOST, dispatcher=dispatcher)
    assert job.failure_reason is FailureReason.MACHINE_REBOOTED
    job = await fleet.until(job.job_id, JobStatus.COMPLETED, dispatcher=dispatcher, requeue=True)
    assert job.retry_count == 1


async def test_an_unreachable_machine_s_job_is_lost_only_after_its_lease(fleet):
    dispatcher = fleet.dispatcher()
    job = await fleet.launched(dispatcher)
    await fleet.machines["m0"].cut()
    await fleet.step(dispatcher)
    fleet.requeue.scan()
    assert jobs.get(fleet.db, job.job_id).status is JobStatus.RUNNING
    with fleet.db.write() as session:
        past = session.scalar(select(Attempt.claimed_at))
        session.execute(update(Attempt).values(lease_until=past))
    fleet.requeue.scan()
    job = jobs.get(fleet.db, job.job_id)
    assert (job.status, job.failure_reason) == (JobStatus.QUEUED, FailureReason.MACHINE_UNREACHABLE)


async def test_a_runner_that_was_killed_is_told_from_a_job_that_failed(fleet):
    dispatcher = fleet.dispatcher()
    job = await fleet.launched(dispatcher)
    pid = fleet.machines["m0"].home / f".questloop/jobs/{job.job_id}/{job.attempt}/pid"
    os.kill(int(pid.read_text()), signal.SIGKILL)
    job = await fleet.until(job.job_id, JobStatus.LOST, dispatcher=dispatcher)
    assert job.failure_reason is FailureReason.RUNNER_GONE
    assert not fleet.processes()


async def test_a_stopped_runner_is_found_by_its_heartbeat(fleet):
    dispatcher = fleet.dispatcher(heartbeat_timeout_s=0.5)
    job = await fleet.launched(dispatcher)
    pid = fleet.machines["m0"].home / f".questloop/jobs/{job.job_id}/{job.attempt}/pid"
    os.kill(int(pid.read_text()), signal.SIGSTOP)
    job = await fleet.until(job.job_id, JobStatus.LOST, dispatcher=dispatcher)
    assert job.failure_reason is FailureReason.HEARTBEAT_STALE
    assert not fleet.processes()


@pytest.mark.parametrize(
    ("script", "reason", "retried"),
    [
        ("exit 2", FailureReason.BAD_ARGUMENTS, False),
        (
            "echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 1",
            FailureReason.OUT_OF_GPU_MEMORY,
            False,
        ),
        (
            "echo 'RuntimeError: CUDA error: unspecified launch failure'; exit 1",
            FailureReason.CUDA_ERROR,
            True,
        ),
        ("exit 75", FailureReason.PREEMPTED, True),
        ("kill -9 $$", FailureReason.KILLED, True),
    ],
)
async def test_failures_by_reason(fleet, script, reason, retried):
    dispatcher = fleet.dispatcher()
    job_id = submit(fleet.db, arguments=["sh", "-c", script], max_retries=1)
    job = await fleet.until(job_id, JobStatus.FAILED, dispatcher=dispatcher)
    assert job.failure_reason is reason
    fleet.requeue.scan()
    assert (jobs.get(fleet.db, job_id).status is JobStatus.QUEUED) == retried


async def test_rows_that_cannot_run_fail_with_the_column_named(fleet):
    dispatcher = fleet.dispatcher()
    with fleet.db.write() as session:
        session.add(Job(job_id="../x", kind="command", arguments=["true"]))
        session.add(Job(job_id="nul", kind="command", arguments=["a\0b"]))
        session.add(Job(job_id="text", kind="command", arguments="rm -rf /"))
    await dispatcher.sweep()
    await fleet.settled(dispatcher)
    await dispatcher.sweep()
    await fleet.settled(dispatcher)
    for job_id, column in (("../x", "job_id"), ("nul", "arguments"), ("text", "arguments")):
        job = jobs.get(fleet.db, job_id)
        assert (job.status, job.failure_reason) == (JobStatus.FAILED, FailureReason.BAD_ARGUMENTS)
        assert column in job.failure_detail
    assert not fleet.journal()


async def test_inputs_and_outputs_travel(fleet):
    from questloop.storage.store import open_store

    open_store(str(fleet.folder / "store")).put("fleet/inputs/data.jsonl", b"rows")
    dispatcher = fleet.dispatcher()
    job_id = submit(
        fleet.db,
        arguments=["sh", "-c", "mkdir $QUESTLOOP_OUTPUT_DIR/a; cp data.jsonl $QUESTLOOP_OUTPUT_DIR/a/model"],
        inputs={"data.jsonl": "store:fleet/inputs/data.jsonl"},
        output_url=str(fleet.folder / "out"),
    )
    await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    assert open_store(str(fleet.folder / "out")).get("a/model") == b"rows"


async def test_a_missing_input_is_the_job_s_failure(fleet):
    dispatcher = fleet.dispatcher()
    job_id = submit(fleet.db, inputs={"data.jsonl": "store:absent"})
    job = await fleet.until(job_id, JobStatus.FAILED, dispatcher=dispatcher)
    assert job.failure_reason is FailureReason.INPUT_UNAVAILABLE


async def test_a_slot_that_the_machine_says_is_in_use_is_left_alone(fleet):
    """A job of another fleet, or of one whose database was lost, still holds the lock."""
    dispatcher = fleet.dispatcher()
    holder = await fleet.launched(dispatcher, gpus=2)
    with fleet.db.write() as session:
        session.execute(update(Attempt).values(ended_at=Attempt.claimed_at))
    from .conftest import empty

    empty(fleet.db)
    await fleet.add("other", 0)
    machine = fleet.machines["m0"]
    machines.add(
        fleet.db, "m0", "127.0.0.1", port=machine.port, user="q", ssh_key_path=str(fleet.key_path),
        host_key=machine.public_key,
    )  # fmt: skip
    await fleet.poller.poll_round()
    job_id = submit(fleet.db, gpus=1)
    await fleet.step(dispatcher)
    job = jobs.get(fleet.db, job_id)
    assert job.status in (JobStatus.QUEUED, JobStatus.PENDING)
    assert job.retry_count == 0
    assert machines.get(fleet.db, "m0").available_gpus == 0, "a poll sees the locks"
    assert holder.attempt


async def test_several_dispatchers_run_every_job_once(sqlite_db, tmp_path):
    async with running_fleet(sqlite_db, tmp_path, count=2) as fleet:
        dispatchers = [fleet.dispatcher(sweep_interval_s=0.1, watch_interval_s=0.1) for _ in range(3)]
        stop = asyncio.Event()
        running = [asyncio.create_task(item.run(stop, listen=False)) for item in dispatchers]
        submitted = [submit(fleet.db, arguments=["sh", "-c", "echo x >> $HOME/count"]) for _ in range(12)]
        for _ in range(600):
            done = jobs.find(fleet.db, JobStatus.COMPLETED)
            if len(done) == len(submitted):
                break
            await asyncio.sleep(0.1)
        stop.set()
        await asyncio.gather(*running)
        counts = [(m.home / "count").read_text().count("x") for m in fleet.machines.values()]
        assert sum(counts) == len(submitted) == len(done)
        check_consistent(fleet.db)


async def test_a_claim_needs_no_message_and_policy_follows_settings(fleet):
    dispatcher = fleet.dispatcher()
    assert dispatcher.policy == ClaimPolicy.of(dispatcher.settings, dispatcher.owner)
    job_id = submit(fleet.db)
    assert isinstance(claims.claim(fleet.db, dispatcher.policy), Claimed)
    assert jobs.get(fleet.db, job_id).status is JobStatus.RUNNING


QUESTLOOP = """#!/bin/sh
for last; do :; done  # --output_dir FOLDER comes last
if [ -e "$last/checkpoint" ]; then echo went on from $(cat "$last/checkpoint"); exit 0; fi
echo step 7 > "$last/checkpoint"
exit 75
"""


async def test_a_training_job_s_retry_goes_on_from_its_checkpoint(fleet):
    """With a stand-in for the training script, which is what a machine's PATH finds."""
    program = fleet.machines["m0"].home / "bin" / "questloop"
    program.write_text(QUESTLOOP)
    program.chmod(0o755)
    dispatcher = fleet.dispatcher()
    job_id = submit(
        fleet.db, kind="grpo", arguments={}, model="m", dataset="d", reward_function="correctness"
    )
    job = await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher, requeue=True)
    assert job.retry_count == 1
    assert (fleet.folder / "logs" / f"{job_id}.log").read_text().endswith("went on from step 7\n")


async def test_a_removed_folder_is_the_end_of_its_job(fleet):
    import shutil

    dispatcher = fleet.dispatcher()
    job = await fleet.launched(dispatcher)
    await fleet.step(dispatcher)
    shutil.rmtree(fleet.machines["m0"].home / ".questloop/jobs" / job.job_id)
    job = await fleet.until(job.job_id, JobStatus.FAILED, dispatcher=dispatcher)
    assert "folder on the machine was removed" in job.failure_detail
    assert jobs.is_final(job)
    assert not fleet.processes()
    assert len([line for line in fleet.journal() if line["event"] == "begin"]) == 1


async def test_variables_by_reference_reach_the_job_and_no_row(fleet, monkeypatch):
    secrets = fleet.folder / "secrets"
    secrets.mkdir()
    (secrets / "hf").write_text("s3cret-of-a-file\n")
    monkeypatch.setenv("TEAM_TOKEN", "s3cret-of-a-variable")
    dispatcher = fleet.dispatcher(job_secrets_dir=secrets)
    asked = {"A": "file:hf", "B": "env:TEAM_TOKEN", "C": "plain"}
    check = '[ "$A" = s3cret-of-a-file ] && [ "$B" = s3cret-of-a-variable ] && [ "$C" = plain ]'
    job_id = submit(fleet.db, environment=asked, arguments=["sh", "-c", check])
    await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    assert jobs.get(fleet.db, job_id).environment == asked
    for path in (fleet.machines["m0"].home / ".questloop").rglob("spec.json"):
        assert "environment" not in json.loads(path.read_text())


async def test_what_a_job_prints_of_its_environment_stays_in_its_log(fleet, monkeypatch):
    secrets = fleet.folder / "secrets"
    secrets.mkdir()
    (secrets / "pem").write_text("BEGIN\ns3cret-line-of-a-file\nEND\n")
    monkeypatch.setenv("TEAM_TOKEN", "s3cret-of-a-variable")
    dispatcher = fleet.dispatcher(job_secrets_dir=secrets)
    asked = {"A": "file:pem", "B": "env:TEAM_TOKEN", "C": "s3cret-of-the-row", "D": "1"}
    job_id = submit(fleet.db, environment=asked, arguments=["sh", "-c", "echo refused 1: $A $B $C; exit 1"])
    with capture_logs() as said:
        job = await fleet.until(job_id, JobStatus.FAILED, dispatcher=dispatcher)
    assert job.failure_detail == "refused 1: BEGIN *** END *** ***"
    events, _ = jobs.history(fleet.db, job_id)
    assert not any("s3cret" in str(vars(event)) for event in events)
    assert "s3cret" not in str(said)
    assert "s3cret-of-a-variable" in (fleet.folder / "logs" / f"{job_id}.log").read_text()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("file:absent", "file absent of the dispatcher: No such file"),
        ("file:../id_ed25519", "only files in JOB_SECRETS_DIR"),
        ("file:/etc/passwd", "only files in JOB_SECRETS_DIR"),
        ("env:NOT_SET_ANYWHERE", "the dispatcher has no variable NOT_SET_ANYWHERE"),
        ("env:DATABASE_URL", "DATABASE_URL is a setting of the dispatcher"),
    ],
)
async def test_a_reference_that_leads_nowhere_is_the_job_s_failure(fleet, reference, said):
    dispatcher = fleet.dispatcher(job_secrets_dir=fleet.folder / "secrets")
    with fleet.db.write() as session:  # by a row, which nobody has checked
        session.add(Job(job_id="j", kind="command", arguments=["true"], environment={"A": reference}))
    job = await fleet.until("j", JobStatus.FAILED, dispatcher=dispatcher)
    assert job.failure_reason is FailureReason.BAD_ARGUMENTS
    assert said in job.failure_detail
    assert not fleet.journal()


async def test_a_publication_without_a_row_is_told_what_to_do(fleet):
    dispatcher = fleet.dispatcher()
    with capture_logs() as said:
        await dispatcher._on_message("no-such-job")
    line = next(line for line in said if line["event"] == "message_for_unknown_job")
    assert "insert a row into jobs first" in line["mend"]


async def test_the_first_host_key_is_taken_only_where_that_is_asked_for(fleet):
    with fleet.db.write() as session:
        session.execute(update(VM).values(host_key=None, state=VMState.NEEDS_HOST_KEY))
    await fleet.poller.poll_round()
    vm = machines.get(fleet.db, "m0")
    assert vm.state is VMState.NEEDS_HOST_KEY
    assert "questloop fleet vm trust m0" in vm.state_detail
    trusting = GPUPoller(
        fleet.db, fleet.settings.model_copy(update={"trust_first_host_key": True}), TransportPool(60)
    )
    await trusting.poll_round()
    await trusting.poll_round()
    await trusting.pool.close()
    vm = machines.get(fleet.db, "m0")
    assert (vm.state, vm.host_key) == (VMState.READY, fleet.machines["m0"].public_key)
