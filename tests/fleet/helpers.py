"""Machines and jobs for tests."""

from sqlalchemy import select

from questloop.fleet import jobs, machines
from questloop.fleet.claims import ClaimPolicy
from questloop.fleet.database import Database, now
from questloop.fleet.machines import Reading, SlotReading
from questloop.fleet.models import VM, Attempt, Claim, Job, Slot
from questloop.fleet.states import Health, SlotKind, TransportKind, VMState

POLICY = ClaimPolicy(owner="d1", lease_s=60)


def gpu(index: int, vm: str = "vm", **values) -> SlotReading:
    """A healthy GPU of 80,000 MB."""
    defaults = {"memory_mb": 80_000, "health": Health.HEALTHY}
    return SlotReading(SlotKind.CUDA, index, f"GPU-{vm}-{index}", **(defaults | values))


def cpu(index: int = 0) -> SlotReading:
    """A CPU slot."""
    return SlotReading(SlotKind.CPU, index, f"cpu-{index}", Health.HEALTHY)


def poll(db: Database, vm_id: int, *slots: SlotReading, since=None, **values) -> None:
    """Write a poll down as if it had just been made."""
    if since is None:
        with db.read() as session:
            since = now(session)
    reading = Reading(vm_id, **({"state": VMState.READY, "boot_id": "boot-1", "slots": slots} | values))
    machines.reconcile(db, [reading], since)


def add_vm(db: Database, name: str, gpus: int, cpus: int = 0) -> int:
    """A ready machine."""
    vm_id = machines.add(db, name, "127.0.0.1", transport=TransportKind.LOCAL, cpu_slots=cpus)
    poll(db, vm_id, *(gpu(index, name) for index in range(gpus)), *(cpu(index) for index in range(cpus)))
    return vm_id


def submit(db: Database, **values) -> str:
    """Queue a job."""
    return jobs.submit(db, jobs.parse_request({"kind": "command", "arguments": ["true"]} | values))


def status(db: Database, job_id: str) -> str:
    """A job's status."""
    return jobs.get(db, job_id).status.value


def check_consistent(db: Database) -> None:
    """What must hold at every moment between transactions."""
    with db.read() as session:
        held: dict[int, list[Claim]] = {}
        for claim in session.scalars(select(Claim)):
            held.setdefault(claim.slot_id, []).append(claim)
        for slot in session.scalars(select(Slot)):
            assert slot.claims == len(held.get(slot.id, []))
            assert slot.claimed_mb == sum(claim.memory_mb for claim in held.get(slot.id, []))
            assert not slot.exclusive or slot.claims == 1
            if slot.claims > 1:
                assert slot.claimed_mb <= slot.memory_mb
        for vm in session.scalars(select(VM)):
            free = [
                slot
                for slot in vm.slots
                if slot.kind is SlotKind.CUDA
                and slot.health is Health.HEALTHY
                and not slot.foreign_use
                and not slot.claims
            ]
            assert vm.available_gpus == len(free) <= vm.total_gpus
        live = session.scalars(select(Attempt).where(Attempt.ended_at.is_(None))).all()
        assert len({attempt.job_id for attempt in live}) == len(live)
        running = session.scalars(select(Job).where(Job.status == "running")).all()
        assert {job.job_id: job.attempt for job in running} == {item.job_id: item.id for item in live}
        claimants = set(session.scalars(select(Claim.attempt_id)))
        assert claimants == {attempt.id for attempt in live}
