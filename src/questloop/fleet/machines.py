"""Machines: adding, trusting, draining and removing them, and recording what a poll saw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session, selectinload

from questloop.errors import UsageError
from questloop.fleet.blame import pause_machine
from questloop.fleet.claims import recount
from questloop.fleet.database import Database, now
from questloop.fleet.models import VM, Attempt, Claim, Slot
from questloop.fleet.states import DrainReason, Health, SlotKind, TransportKind, VMState


@dataclass(frozen=True)
class SlotReading:
    """What a poll saw of one slot."""

    kind: SlotKind
    index: int
    uuid: str
    health: Health
    name: str | None = None
    memory_mb: int = 0
    memory_used_mb: int = 0
    utilisation: int | None = None
    foreign_processes: bool = False
    locked: bool = False  # by a process that the machine takes for a job's


@dataclass(frozen=True)
class Reading:
    """What a poll saw of a machine; `slots` is None if the driver did not answer: nothing is known then."""

    vm_id: int
    state: VMState
    detail: str | None = None
    boot_id: str | None = None
    slots: tuple[SlotReading, ...] | None = None


class UnknownMachineError(UsageError):
    """No machine has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no machine {name!r}: `questloop fleet vm list` lists them")


def add(
    db: Database,
    name: str,
    ip_address: str,
    *,
    port: int = 22,
    user: str | None = None,
    ssh_key_path: str | None = None,
    host_key: str | None = None,
    transport: TransportKind = TransportKind.SSH,
    cpu_slots: int = 0,
) -> int:
    """Add a machine and return its id; without a host key it waits for `trust`."""
    if not 0 < len(name) <= 64 or not name.isprintable():
        raise UsageError(f"machine {name[:80]!r}: a name has 1 to 64 printable characters")
    trusted = host_key is not None or transport is TransportKind.LOCAL
    with db.write() as session:
        if session.scalar(select(VM.id).where(VM.name == name)) is not None:
            raise UsageError(
                f"machine {name!r} exists: choose another name or `questloop fleet vm remove` it"
            )
        vm = VM(
            name=name,
            ip_address=ip_address,
            port=port,
            user=user,
            ssh_key_path=ssh_key_path,
            host_key=host_key,
            transport=transport,
            cpu_slots=cpu_slots,
            state=VMState.NEW if trusted else VMState.NEEDS_HOST_KEY,
        )
        session.add(vm)
        session.flush()
        return vm.id


def trust(db: Database, name: str, host_key: str) -> None:
    """Accept `host_key` (`ssh-ed25519 AAAA...`) as the machine's."""
    with db.write() as session:
        vm = _named(session, name)
        vm.host_key = host_key
        vm.state = VMState.NEW
        vm.state_detail = None


def drain(db: Database, name: str, off: bool = False) -> None:
    """Give a machine no new job, or again (`off`), which also accepts the GPUs it has now as all it has."""
    with db.write() as session:
        vm = _named(session, name)
        vm.drain_reason = None if off else DrainReason.OPERATOR
        if off:
            vm.failures = 0
            vm.blamed_by = []
            vm.launch_failures = 0
            vm.retry_at = None
            missing = Slot.vm_id == vm.id, Slot.health == Health.MISSING, Slot.claims == 0
            session.execute(delete(Slot).where(*missing))
            session.flush()
            vm.total_gpus = _count_gpus(session, vm.id)
            session.flush()
            recount(session, vm.id)


def set_cpu_slots(db: Database, name: str, count: int) -> None:
    """Change how many jobs without a GPU a machine takes at once; in force after its next poll."""
    with db.write() as session:
        _named(session, name).cpu_slots = count


@dataclass(frozen=True)
class LiveAttempt:
    """An attempt on a machine that is to be removed."""

    job_id: str
    attempt: int
    lease_until: datetime | None


def live_attempts(db: Database, name: str) -> list[LiveAttempt]:
    """What has not ended on a machine; `lease_until` is when its runner will have ended itself."""
    with db.read() as session:
        vm_id = session.scalar(select(VM.id).where(VM.name == name))
        if vm_id is None:
            raise UnknownMachineError(name)
        rows = session.execute(
            select(Attempt.job_id, Attempt.id, Attempt.lease_until)
            .where(Attempt.vm_id == vm_id, Attempt.ended_at.is_(None))
            .order_by(Attempt.id)
        )
        return [LiveAttempt(*row) for row in rows]


def remove(db: Database, name: str, force: bool = False) -> None:
    """Forget a machine; refused while it has jobs, unless by `force`.

    Its jobs then count as running until their runners have ended themselves, and are queued again.
    """
    live = live_attempts(db, name)
    if live and not force:
        raise UsageError(
            f"machine {name!r} runs {', '.join(item.job_id for item in live[:3])}: drain it and wait, cancel "
            "its jobs, or end them by --force; then it is removed"
        )
    with db.write() as session:
        vm = _named(session, name)
        held = select(Slot.id).where(Slot.vm_id == vm.id)
        session.execute(delete(Claim).where(Claim.slot_id.in_(held)))
        session.execute(update(Attempt).where(Attempt.vm_id == vm.id).values(vm_id=None))
        session.delete(vm)


def name_bare_rows(db: Database) -> None:
    """Name machines after their addresses that were inserted without a name."""
    with db.read() as session:
        bare = list(session.scalars(select(VM.id).where(or_(VM.name.is_(None), VM.name == ""))))
    for vm_id in bare:
        with db.write() as session:
            vm = session.scalar(select(VM).where(VM.id == vm_id).with_for_update())
            if vm is None or vm.name:
                continue
            address = vm.ip_address[:50]
            taken = session.scalar(select(VM.id).where(VM.name == address))
            vm.name = address if taken is None else f"{address}-{vm.id}"


def get(db: Database, name: str) -> VM:
    """The machine with its slots; raises `UnknownMachineError`."""
    with db.read() as session:
        vm = session.scalar(select(VM).where(VM.name == name).options(selectinload(VM.slots)))
    if vm is None:
        raise UnknownMachineError(name)
    return vm


def find(db: Database) -> list[VM]:
    """Every machine with its slots, by name."""
    with db.read() as session:
        return list(session.scalars(select(VM).order_by(VM.name).options(selectinload(VM.slots))))


def machine_of(db: Database, attempt: Attempt) -> VM:
    """The machine that an attempt ran on; `UsageError` where it was removed since."""
    with db.read() as session:
        vm = session.get(VM, attempt.vm_id) if attempt.vm_id is not None else None
    if vm is None:
        raise UsageError("the machine that ran this job was removed: its output cannot be fetched")
    return vm


def machine_names(db: Database, attempts: Iterable[int]) -> dict[int, str]:
    """The names of the machines of attempts, by the id of the attempt."""
    with db.read() as session:
        rows = session.execute(select(Attempt.id, Attempt.vm_name).where(Attempt.id.in_(list(attempts))))
        return {row.id: row.vm_name for row in rows}


def mark_unreachable(db: Database, vm_id: int, detail: str) -> None:
    """Note that a machine did not answer; a poll that it answers undoes it."""
    with db.write() as session:
        session.execute(
            update(VM)
            .where(VM.id == vm_id, VM.state.in_((VMState.READY, VMState.NEW)))
            .values(state=VMState.UNREACHABLE, state_detail=detail)
        )


def pause(db: Database, vm_id: int) -> None:
    """Note that a machine failed to launch a job: it gets no other for a while, longer each time."""
    with db.write() as session:
        pause_machine(session, vm_id)


def mark_in_use(db: Database, vm_id: int, uuids: Sequence[str]) -> None:
    """Note that the machine itself says that these slots are in use; the next poll looks again."""
    with db.write() as session:
        session.execute(select(VM.id).where(VM.id == vm_id).with_for_update())
        session.execute(
            update(Slot)
            .where(Slot.vm_id == vm_id, Slot.uuid.in_(uuids))
            .values(foreign_use=True)
            .execution_options(synchronize_session=False)
        )
        recount(session, vm_id)


def slot_state(slot: Slot) -> str:
    """`free`, `claimed`, `foreign` or a health other than healthy."""
    if slot.health is not Health.HEALTHY:
        return slot.health.value
    if slot.claims:
        return "claimed"
    return "foreign" if slot.foreign_use else "free"


def reconcile(
    db: Database, readings: Sequence[Reading], since: datetime, foreign_memory_mb: int = 600
) -> None:
    """Write down polls that began at `since` (database time), without touching a claim.

    What a poll says about the use of a slot that was claimed or given back after it began is not taken over.
    """
    if not readings:
        return
    by_id = {reading.vm_id: reading for reading in readings}
    with db.write() as session:
        moment = now(session)
        locked = select(VM).where(VM.id.in_(by_id)).order_by(VM.id).with_for_update()
        for vm in session.scalars(locked.options(selectinload(VM.slots))).all():
            _apply(session, vm, by_id[vm.id], since, moment, foreign_memory_mb)


def _apply(
    session: Session, vm: VM, reading: Reading, since: datetime, moment: datetime, foreign_memory_mb: int
) -> None:
    vm.state = reading.state
    vm.state_detail = reading.detail
    if reading.state is VMState.READY:
        if vm.last_polled is None:
            vm.available_gpus = 0  # what the row's writer claimed; from here on it is counted
        vm.last_polled = moment
    elif vm.last_polled is None:
        return
    if reading.boot_id is not None:
        vm.boot_id = reading.boot_id
    if reading.slots is not None:
        _apply_slots(vm, reading.slots, since, foreign_memory_mb)
    elif reading.state is VMState.READY:
        for slot in vm.slots:
            if slot.kind is SlotKind.CUDA:
                slot.health = Health.UNKNOWN
    session.flush()
    present = _count_gpus(session, vm.id)
    if present < vm.total_gpus and vm.drain_reason is None and reading.slots is not None:
        vm.drain_reason = DrainReason.GPU_COUNT_FELL
    vm.total_gpus = max(vm.total_gpus, present)
    session.flush()
    recount(session, vm.id)


def _apply_slots(vm: VM, seen: Sequence[SlotReading], since: datetime, foreign_memory_mb: int) -> None:
    known = {slot.uuid: slot for slot in vm.slots}
    for reading in seen:
        slot = known.pop(reading.uuid, None)
        if slot is None:
            slot = Slot(kind=reading.kind, uuid=reading.uuid, claims=0)
            vm.slots.append(slot)
        slot.index = reading.index
        slot.name = reading.name
        slot.health = reading.health
        slot.memory_mb = reading.memory_mb
        slot.memory_used_mb = reading.memory_used_mb
        slot.utilisation = reading.utilisation
        if slot.claim_changed_at is not None and slot.claim_changed_at >= since:
            continue
        memory = not slot.claims and reading.memory_used_mb > foreign_memory_mb
        slot.foreign_use = reading.foreign_processes or memory or (reading.locked and not slot.claims)
    for slot in known.values():
        slot.health = Health.MISSING


def _count_gpus(session: Session, vm_id: int) -> int:
    query = select(func.count()).where(
        Slot.vm_id == vm_id, Slot.kind == SlotKind.CUDA, Slot.health != Health.MISSING
    )
    return session.scalar(query) or 0


def _named(session: Session, name: str) -> VM:
    vm = session.scalar(select(VM).where(VM.name == name).with_for_update())
    if vm is None:
        raise UnknownMachineError(name)
    return vm
