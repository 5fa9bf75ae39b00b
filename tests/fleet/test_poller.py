"""The poller over SSH to loopback machines."""

import asyncio

import asyncssh
import pytest

from questloop.fleet import agent, machines
from questloop.fleet.poller import GPUPoller
from questloop.fleet.states import DrainReason, VMState
from questloop.fleet.transport import TransportPool
from questloop.settings import FleetSettings

from .loopback import LoopbackMachine, client_key, gpu_row, gpu_uuid


class Polled:
    """A poller and two machines."""

    def __init__(self, db, folder):
        self.db = db
        self.folder = folder
        self.key, self.key_path = client_key(folder)
        self.settings = FleetSettings(ssh_timeout_s=60, poll_timeout_s=30)
        self.poller = GPUPoller(db, self.settings, TransportPool(60))
        self.machines = {}

    async def add(self, name, gpus=2, **changed):
        machine = LoopbackMachine(name, self.folder / name, self.key, gpus)
        await machine.start()
        self.machines[name] = machine
        values = {
            "port": machine.port,
            "user": "q",
            "ssh_key_path": str(self.key_path),
            "host_key": machine.public_key,
        }
        machines.add(self.db, name, "127.0.0.1", **(values | changed))
        return machine

    async def poll(self):
        await self.poller.poll_round()
        return {vm.name: vm for vm in machines.find(self.db)}


@pytest.fixture
async def fleet(sqlite_db, tmp_path):
    fleet = Polled(sqlite_db, tmp_path)
    yield fleet
    await fleet.poller.pool.close()
    for machine in fleet.machines.values():
        await machine.stop()


async def test_a_poll_finds_gpus_and_cpu_slots(fleet):
    await fleet.add("a", gpus=2, cpu_slots=1)
    vm = (await fleet.poll())["a"]
    assert (vm.state, vm.total_gpus, vm.available_gpus) == (VMState.READY, 2, 2)
    assert [slot.uuid for slot in vm.slots if slot.kind == "cpu"] == ["cpu-0"]


async def test_polls_share_one_command_until_the_machine_reboots(fleet):
    machine = await fleet.add("a")
    await fleet.poll()
    await fleet.poll()
    assert len(machine.commands) == 3  # the runner was missing and is put there; then its loop
    await machine.reboot()
    states = [(await fleet.poll())["a"].state for _ in range(2)]
    assert states[-1] is VMState.READY
    assert len(machine.commands) == 4


async def test_a_sick_machine_spoils_no_other(fleet):
    sick = await fleet.add("sick")
    await fleet.add("well")
    sick.smi(gpus=["NVIDIA-SMI has failed because it couldn't communicate"], exit_code=9)
    polled = await fleet.poll()
    assert polled["sick"].available_gpus == 0
    assert "couldn't communicate" in polled["sick"].state_detail
    assert polled["well"].available_gpus == 2


@pytest.mark.parametrize("answer", [{}, {"smi": 3, "own_pids": [], "boot_id": "b"}, {"smi": {"gpus": {}}}])
async def test_an_answer_that_is_none_spoils_no_other(fleet, answer, monkeypatch):
    await fleet.add("odd")
    await fleet.add("well")
    real = agent.look

    async def look(transport, command, request):
        reply = await real(transport, command, request)
        return answer if transport is await fleet.poller.pool.get(machines.get(fleet.db, "odd")) else reply

    monkeypatch.setattr(agent, "look", look)
    polled = await fleet.poll()
    assert polled["odd"].state is VMState.UNREACHABLE
    assert "cannot be read" in polled["odd"].state_detail
    assert polled["well"].available_gpus == 2


async def test_a_foreign_process_and_its_end(fleet):
    machine = await fleet.add("a", gpus=1)
    machine.smi(apps=[f"{gpu_uuid('a', 0)}, 1, 900, other"])
    assert (await fleet.poll())["a"].available_gpus == 0
    machine.smi()
    assert (await fleet.poll())["a"].available_gpus == 1


async def test_slices_are_found_by_a_second_question(fleet):
    machine = await fleet.add("a", gpus=0)
    machine.smi(
        gpus=[gpu_row(0, "GPU-x", mig="Enabled", utilisation="[N/A]")],
        listing=["GPU 0: NVIDIA H100 (UUID: GPU-x)", "  MIG 1g.10gb     Device  0: (UUID: MIG-1)"],
    )
    vm = (await fleet.poll())["a"]
    assert [(slot.uuid, slot.memory_mb) for slot in vm.slots] == [("MIG-1", 10240)]
    assert vm.total_gpus == 1


async def test_a_fallen_gpu_count_drains_and_a_reboot_shows(fleet):
    machine = await fleet.add("a", gpus=2)
    before = (await fleet.poll())["a"].boot_id
    await machine.reboot()
    machine.smi(gpus=[gpu_row(0, gpu_uuid("a", 0))])
    vm = (await fleet.poll())["a"]
    assert vm.boot_id != before
    assert vm.drain_reason is DrainReason.GPU_COUNT_FELL


async def test_states_of_machines_that_cannot_be_asked(fleet):
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode()
    await fleet.add("unknown", host_key=None)
    await fleet.add("changed", host_key=other)
    await fleet.add("cut")
    bare = await fleet.add("bare")
    (bare.home / "bin" / "python3").write_text("#!/bin/sh\nexit 127\n")
    (bare.home / "bin" / "python3").chmod(0o755)
    await fleet.machines["cut"].cut()
    states = {name: vm.state for name, vm in (await fleet.poll()).items()}
    assert states == {
        "unknown": VMState.NEEDS_HOST_KEY,
        "changed": VMState.HOST_KEY_CHANGED,
        "cut": VMState.UNREACHABLE,
        "bare": VMState.NEEDS_SETUP,
    }


async def test_a_machine_that_hangs_is_asked_once_and_holds_up_no_round(fleet):
    slow = await fleet.add("slow")
    await fleet.add("quick")
    slow.delay_s = 600
    first = asyncio.create_task(fleet.poller.poll_round())
    for _ in range(200):
        if machines.get(fleet.db, "quick").last_polled:
            break
        await asyncio.sleep(0.05)
    assert await fleet.poller.poll_round() == 1
    assert len(slow.commands) == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
