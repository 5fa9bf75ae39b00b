"""Machines whose login shell prints before every command, as a line in ~/.bashrc does."""

import asyncio

import pytest

from questloop.fleet import agent, jobs, machines, setup
from questloop.fleet.agent import RunnerError
from questloop.fleet.states import FailureReason, JobStatus, VMState
from questloop.fleet.transport import TransportError

from .helpers import submit
from .test_dispatcher import Fleet, running_fleet

GREETINGS = {
    "a line": "echo Welcome to gpu01; ",
    "no line end": "printf 'gpu01> '; ",
    "JSON": """echo '{"boot_id": "x", "attempts": {}}'; """,
    "numbers": "echo 0; echo 127; ",
    "colours": r"printf '\033[31mred\033[0m\a\r\n'; ",
    "many lines": "seq 1 3000; ",
    "after a while": "(sleep 0.3; echo late) & ",
    "not UTF-8": r"printf '\377\376 hello\n'; ",
}


@pytest.fixture
async def fleet(sqlite_db, tmp_path):
    async with running_fleet(sqlite_db, tmp_path) as fleet:
        yield fleet


async def anew(fleet):
    """A connection on which no command was kept from before."""
    transport = await fleet.poller.pool.get(machines.get(fleet.db, "m0"))
    await transport.close()
    return transport


@pytest.mark.parametrize("greeting", GREETINGS)
async def test_a_job_goes_through_and_the_state_says_what_is_printed(fleet: Fleet, greeting):
    machine = fleet.machines["m0"]
    machine.greeting = GREETINGS[greeting]
    await machine.reboot()
    for _ in range(3):
        await fleet.poller.poll_round()
        vm = machines.get(fleet.db, "m0")
        if vm.state is VMState.READY:
            break
    assert vm.state is VMState.READY, vm.state_detail
    if greeting != "after a while":
        assert "login shell there prints" in vm.state_detail
        assert vm.state_detail.isprintable()
    dispatcher = fleet.dispatcher()
    job_id = submit(fleet.db, arguments=["sh", "-c", "echo said; echo x > $QUESTLOOP_OUTPUT_DIR/x"])
    job = await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    assert job.retry_count == 0
    assert (fleet.folder / "logs" / f"{job_id}.log").read_text().splitlines()[1:] == ["said"]


async def test_answers_belong_to_their_questions(fleet):
    fleet.machines["m0"].greeting = GREETINGS["JSON"]
    transport = await anew(fleet)
    watch = {"attempts": [{"job_id": "j", "attempt": 7}]}
    for _ in range(2):
        assert "smi" in await agent.look(transport, "poll", {"queries": {}, "timeout_s": 5})
        assert (await agent.look(transport, "watch", watch))["attempts"] == {"7": {"state": "absent"}}
        assert "python" in await agent.call(transport, "hello", {})
    looks = [agent.look(transport, "watch", {"attempts": [{"job_id": "j", "attempt": n}]}) for n in range(6)]
    answers = await asyncio.gather(*looks)
    assert [list(answer["attempts"]) for answer in answers] == [[str(n)] for n in range(6)]


async def test_vm_test_says_it(fleet):
    fleet.machines["m0"].greeting = GREETINGS["a line"]
    vm = machines.get(fleet.db, "m0")
    transport = await anew(fleet)
    found = {item.name: item async for item in setup.check(vm, transport)}
    assert "prints 'Welcome to gpu01'" in found["connection"].found


async def test_a_shell_that_never_stops_printing_is_left(fleet):
    machine = fleet.machines["m0"]
    machine.greeting = "yes Welcome | head -c 3000000; "
    transport = await anew(fleet)
    with pytest.raises(TransportError, match=r"prints more than 65536 bytes .*'Welcome'"):
        await agent.look(transport, "poll", {"queries": {}, "timeout_s": 5})


@pytest.mark.parametrize("shell", ["echo no longer in use; exit 0; ", "echo locked >&2; exit 1; "])
async def test_a_shell_that_does_not_run_the_command_is_said_to_be_that(fleet, shell):
    machine = fleet.machines["m0"]
    machine.greeting = shell
    transport = await anew(fleet)
    with pytest.raises(RunnerError, match=r"no longer in use|locked"):
        await agent.call(transport, "hello", {})


@pytest.mark.parametrize(
    ("shell", "mend"),
    [
        ("exit 0; ", "ends early"),
        ("exit 1; ", "ends early"),
        ("read -r answer; ", "asks something"),
        ("python3() { echo 'SyntaxError: invalid syntax' >&2; return 1; }; ", "put 3.8 or newer first"),
    ],
)
async def test_a_shell_in_the_way_is_named_with_what_mends_it(fleet, shell, mend):
    fleet.machines["m0"].greeting = shell
    transport = await anew(fleet)
    with pytest.raises(RunnerError, match=mend):
        await agent.call(transport, "hello", {})


async def test_no_command_has_what_some_shell_reads_between_quotes(fleet):
    """fish reads backslashes there, csh exclamation marks, and neither takes a line end."""
    machine = fleet.machines["m0"]
    transport = await anew(fleet)
    await transport.put("folder/file", b"content")
    assert await transport.read_from("folder/file", 3) == b"tent"
    assert {item.name async for item in setup.check(machines.get(fleet.db, "m0"), transport)} > {"connection"}
    assert len(machine.commands) > 5
    assert not any(set("\\!\n") & set(command) for command in machine.commands)


async def test_a_machine_whose_launches_fail_gets_a_pause_and_the_job_an_end(sqlite_db, tmp_path):
    """Polls are answered, launches are not: Python broke in between, say."""
    async with running_fleet(sqlite_db, tmp_path) as fleet:
        dispatcher = fleet.dispatcher()
        machine = fleet.machines["m0"]
        job_id = submit(fleet.db, max_retries=1)
        await fleet.poller.poll_round()
        machine.greeting = "case $* in *hello*) exit 3;; esac; " + "if true; then :; fi; exit 3; "
        for _ in range(40):
            await fleet.step(dispatcher)
            fleet.requeue.scan()
            vm = machines.get(fleet.db, "m0")
            if jobs.is_final(jobs.get(fleet.db, job_id)):
                break
            if vm.retry_at is not None:
                machines.drain(fleet.db, "m0", off=True)  # the pause is over
            await asyncio.sleep(0)
        job = jobs.get(fleet.db, job_id)
        assert (job.status, job.failure_reason) == (JobStatus.FAILED, FailureReason.LAUNCH_FAILED)
        assert len(jobs.history(fleet.db, job_id)[1]) == 2
