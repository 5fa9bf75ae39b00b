"""Claims slots of machines for jobs, and gives them back.

Locks are taken in the order job, machine, slots. A machine's row is locked before its slots change, so that
`available_gpus` is recounted from committed facts; a machine that another process holds is passed over.

Statements are of SQLAlchemy's Core, on tables: through the ORM a claim took a third more of the processor.
What a claim writes is one statement on PostgreSQL (`taking.py`) and several on SQLite, which has no such.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.orm import Session

from questloop.fleet import taking
from questloop.fleet.database import Database
from questloop.fleet.jobs import move, move_many
from questloop.fleet.models import VM, Attempt, Claim, Job, Slot, db_ago, db_now
from questloop.fleet.placement import Choice, Demand, SlotView, choices, machine_to_keep_free
from questloop.fleet.states import SLOT_FREE, Health, JobStatus, SlotKind, VMState
from questloop.settings import FleetSettings, Placement

# Literal, not bound, so that the planner can prove that the partial indexes serve.
_WAITING = text("jobs.status IN ('queued', 'pending')")
_QUEUED = text("jobs.status = 'queued'")
_LARGE = text("jobs.status = 'pending' AND jobs.gpus > 1")
_vms, _slots, _jobs, _attempts, _claims = (
    entity.metadata.tables[entity.__tablename__] for entity in (VM, Slot, Job, Attempt, Claim)
)
_RANK = (_jobs.c.priority.desc(), _jobs.c.created_at, _jobs.c.job_id)
PARK_AT_ONCE = 500
MIG_PREFIX = "MIG-"  # of a slice's UUID


def _open_slots_query(*conditions: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    slot = _slots.c
    return (
        select(
            *(slot.id, slot.vm_id, slot.kind, slot.memory_mb, slot.claimed_mb, slot.claims, slot.exclusive),
            slot.uuid.startswith(MIG_PREFIX),
        )
        .select_from(_slots.join(_vms))
        .where(
            _vms.c.state == VMState.READY,
            _vms.c.drain_reason.is_(None),
            or_(_vms.c.retry_at.is_(None), _vms.c.retry_at <= db_now()),
            _vms.c.last_polled >= db_ago(bindparam("stale_poll_s", type_=Float)),
            slot.health == Health.HEALTHY,
            not_(slot.foreign_use),
            *conditions,
        )
    )


def moment_and_starving_query() -> Select[*tuple[Any, ...]]:
    """The database's clock, with the best large job that has waited for `starving_s`, if any."""
    job = _jobs.c
    starving = (
        select(job.job_id, job.gpus, job.memory_mb, job.shared)
        .where(_LARGE, job.created_at < db_ago(bindparam("starving_s", type_=Float)))
        .order_by(*_RANK)
        .limit(1)
        .subquery()
    )
    clock = select(db_now().label("moment")).subquery()
    return select(clock.c.moment, *starving.c).select_from(clock.outerjoin(starving, true()))


# Made once: building a statement takes longer than the database takes to run it.
_OPEN = _open_slots_query()
_WITH_ROOM = _open_slots_query(not_(_slots.c.exclusive))
_MOMENT_AND_STARVING = moment_and_starving_query()


@dataclass(frozen=True)
class ClaimPolicy:
    """How slots are given out."""

    owner: str
    lease_s: float
    placement: Placement = Placement.PACK
    starving_s: float = 300
    stale_poll_s: float = 120

    @classmethod
    def of(cls, settings: FleetSettings, owner: str) -> ClaimPolicy:
        """The policy that the settings ask for."""
        return cls(
            owner,
            settings.lease_s,
            settings.placement,
            settings.pending_timeout_s,
            stale_poll_s(settings),
        )


@dataclass(frozen=True)
class Claimed:
    """A job that was moved to `running` under a new fence."""

    attempt: int
    job_id: str


@dataclass(frozen=True)
class Idle:
    """Nothing was claimed.

    `contended`: trying again at once may succeed. `parked`: jobs that were made pending.
    """

    contended: bool = False
    parked: int = 0


def stale_poll_s(settings: FleetSettings) -> float:
    """Age of a poll, seconds, from which on a machine takes no new job."""
    return max(60.0, 6 * settings.poll_interval_s)


def claim(db: Database, policy: ClaimPolicy) -> Claimed | Idle:
    """Give the best waiting job that fits anywhere its slots, atomically.

    Best is the highest priority, then the oldest. Queued jobs that fit nowhere become pending.
    """
    with db.write() as session:
        moment, starving = _moment_and_starving(session, policy.starving_s)
        slots = open_slots(session, policy.stale_poll_s, with_room=starving is None)
        kept_free = None if starving is None else machine_to_keep_free(starving[1], slots)
        room = _most_room(slots)
        unfit: list[Demand] = []
        contended = False
        parked = 0
        while True:
            job = session.connection().execute(waiting_query(tuple(unfit), *room)).first()
            if job is None:
                # A job that another process held is not parked: there may be room for it, and that process
                # may have failed to take it and be about to look again.
                return Idle(contended, parked + _park(session, moment, not_(_within(*room))))
            demand = Demand(job.gpus, job.memory_mb, job.shared)
            kept = kept_free if starving and starving[0] != job.job_id else None
            options = choices(demand, slots, policy.placement, kept, _machine_of(session, job.attempt))
            for option in options:
                attempt = _take(session, job.job_id, JobStatus(job.status), demand, option, policy, moment)
                if attempt is not None:
                    return Claimed(attempt, job.job_id)
                contended = True
            if not options:
                parked += _park(session, moment, _asks_for(demand))
            unfit.append(demand)


def kept_free(session: Session, starving_s: float, stale_poll_s: float) -> tuple[str | None, int | None]:
    """The large job that has waited too long, and the machine that is kept free for it."""
    _, starving = _moment_and_starving(session, starving_s)
    if starving is None:
        return None, None
    return starving[0], machine_to_keep_free(starving[1], open_slots(session, stale_poll_s))


def open_slots(session: Session, stale_poll_s: float, with_room: bool = False) -> list[SlotView]:
    """Every healthy slot without foreign use on machines that take jobs, claimed or not.

    `with_room`: without those that a job has to itself.
    """
    query = _WITH_ROOM if with_room else _OPEN
    return [
        SlotView._make(row) for row in session.connection().execute(query, {"stale_poll_s": stale_poll_s})
    ]


@lru_cache(256)
def waiting_query(
    excluded: tuple[Demand, ...] = (), max_gpus: int = 0, cpu: bool = False
) -> Select[*tuple[Any, ...]]:
    """The best waiting job that asks for at most `max_gpus`, or for a CPU slot if `cpu`, locked."""
    job = _jobs.c
    query = select(job.job_id, job.status, job.gpus, job.memory_mb, job.shared, job.attempt).where(
        _WAITING, _within(max_gpus, cpu)
    )
    for demand in excluded:
        query = query.where(not_(_asks_for(demand)))
    return query.order_by(*_RANK).limit(1).with_for_update(skip_locked=True)


def _machine_of(session: Session, attempt: int | None) -> int | None:
    """The machine that holds what a job's last attempt left, unless that attempt spoke against it."""
    if attempt is None:
        return None
    last = (
        session.connection()
        .execute(select(_attempts.c.vm_id, _attempts.c.reason).where(_attempts.c.id == attempt))
        .first()
    )
    if last is None or (last.reason is not None and last.reason.blames_machine):
        return None
    return last.vm_id


def release(session: Session, attempt: int, moment: datetime) -> None:
    """Give back what an attempt holds."""
    connection = session.connection()
    vm_id = connection.scalar(select(_attempts.c.vm_id).where(_attempts.c.id == attempt))
    if vm_id is None:
        return
    connection.execute(select(_vms.c.id).where(_vms.c.id == vm_id).with_for_update())
    given_back = delete(_claims).where(_claims.c.attempt_id == attempt).returning(_claims.c.slot_id)
    freed = connection.scalars(given_back).all()
    if not freed:
        return
    of_slot = _claims.c.slot_id == _slots.c.id
    memory = func.coalesce(func.sum(_claims.c.memory_mb), 0)
    connection.execute(
        update(_slots)
        .where(_slots.c.id.in_(freed))
        .values(
            claims=select(func.count()).where(of_slot).scalar_subquery(),
            claimed_mb=select(memory).where(of_slot).scalar_subquery(),
            exclusive=False,
            claim_changed_at=moment,
        )
    )
    recount(session, vm_id)


def recount(session: Session, vm_id: int) -> None:
    """Set `available_gpus` from the slots; the machine's row must be locked by this transaction."""
    free = (
        select(func.count())
        .select_from(_slots)
        .where(
            _slots.c.vm_id == vm_id,
            _slots.c.kind == SlotKind.CUDA,
            _slots.c.health == Health.HEALTHY,
            not_(_slots.c.foreign_use),
            _slots.c.claims == 0,
        )
        .scalar_subquery()
    )
    session.connection().execute(update(_vms).where(_vms.c.id == vm_id).values(available_gpus=free))


def _most_room(slots: list[SlotView]) -> tuple[int, bool]:
    """The most open GPUs of one machine, and whether a CPU slot is open."""
    room: dict[int, int] = {}
    cpu = False
    for slot in slots:
        if slot.exclusive:
            continue
        if slot.kind is SlotKind.CPU:
            cpu = cpu or not slot.claims
        else:
            room[slot.vm_id] = room.get(slot.vm_id, 0) + 1
    return max(room.values(), default=0), cpu


def _moment_and_starving(session: Session, starving_s: float) -> tuple[datetime, tuple[str, Demand] | None]:
    """The database's clock, and the large job that has waited too long: a machine is kept free for it."""
    row = session.connection().execute(_MOMENT_AND_STARVING, {"starving_s": starving_s}).one()
    if row.job_id is None:
        return row.moment, None
    return row.moment, (row.job_id, Demand(row.gpus, row.memory_mb, row.shared))


def _take(
    session: Session,
    job_id: str,
    status: JobStatus,
    demand: Demand,
    choice: Choice,
    policy: ClaimPolicy,
    moment: datetime,
) -> int | None:
    """Claim the chosen slots for the locked job; None, with nothing changed, if any is gone."""
    connection = session.connection()
    machine = select(_vms.c.name).where(
        _vms.c.id == choice.vm_id, _vms.c.state == VMState.READY, _vms.c.drain_reason.is_(None)
    )
    name = connection.scalar(machine.with_for_update(skip_locked=True))
    if name is None:
        return None
    if connection.dialect.name == "postgresql":
        until = moment + timedelta(seconds=policy.lease_s)
        return taking.take(connection, job_id, status, demand, choice, name, policy.owner, until, moment)
    if not _occupy(session, demand, choice, moment):
        return None
    # The fence is drawn while the slots are locked: a later claim of a slot has a higher one.
    attempt = connection.scalar(
        insert(_attempts)
        .values(
            job_id=job_id,
            vm_id=choice.vm_id,
            vm_name=name,
            owner=policy.owner,
            owner_until=moment + timedelta(seconds=policy.lease_s),
            claimed_at=moment,
        )
        .returning(_attempts.c.id)
    )
    assert attempt is not None
    connection.execute(
        insert(_claims),
        [{"slot_id": slot, "attempt_id": attempt, "memory_mb": demand.memory_mb} for slot in choice.slot_ids],
    )
    recount(session, choice.vm_id)
    if status is JobStatus.PENDING:
        move(session, job_id, status, JobStatus.QUEUED, reason=SLOT_FREE, pending_since=None)
    move(
        session,
        job_id,
        JobStatus.QUEUED,
        JobStatus.RUNNING,
        detail=name,
        attempt=attempt,
        started_at=moment,
        finished_at=None,
        exit_code=None,
    )
    return attempt


def _occupy(session: Session, demand: Demand, choice: Choice, moment: datetime) -> bool:
    """The claim itself: one conditional statement, which takes all of the slots or none.

    The count in it cannot change under it: whoever changes a slot holds its machine's row.
    """
    shared = demand.shared and demand.gpus > 0
    slot = _slots.alias("slot")
    room = slot.c.claimed_mb + demand.memory_mb <= slot.c.memory_mb if shared else slot.c.claims == 0
    free = (
        select(func.count())
        .select_from(slot)
        .where(
            slot.c.id.in_(choice.slot_ids),
            slot.c.health == Health.HEALTHY,
            not_(slot.c.foreign_use),
            not_(slot.c.exclusive),
            room,
        )
        .scalar_subquery()
    )
    taken = session.connection().execute(
        update(_slots)
        .where(_slots.c.id.in_(choice.slot_ids), free == len(choice.slot_ids))
        .values(
            claims=_slots.c.claims + 1,
            claimed_mb=_slots.c.claimed_mb + demand.memory_mb,
            exclusive=not shared,
            claim_changed_at=moment,
        )
    )
    return taken.rowcount > 0


def _park(session: Session, moment: datetime, asking: ColumnElement[bool]) -> int:
    """Make queued jobs pending that ask for what is not free."""
    waiting = select(_jobs.c.job_id).where(_QUEUED, asking)
    waiting = waiting.order_by(*_RANK).limit(PARK_AT_ONCE).with_for_update(skip_locked=True)
    return move_many(
        session, waiting, JobStatus.QUEUED, JobStatus.PENDING, "no_free_slot", pending_since=moment
    )


def _within(max_gpus: int, cpu: bool) -> ColumnElement[bool]:
    gpus = _jobs.c.gpus
    some = gpus.between(1, max_gpus)
    return or_(some, gpus == 0) if cpu else some


def _asks_for(demand: Demand) -> ColumnElement[bool]:
    job = _jobs.c
    return and_(job.gpus == demand.gpus, job.memory_mb == demand.memory_mb, job.shared.is_(demand.shared))
