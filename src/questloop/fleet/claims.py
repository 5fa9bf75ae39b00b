"""Claiming slots for jobs, and giving them back.

Locks are taken in the order job, machine, slots. A machine's row is locked before its slots change, so that
`available_gpus` is recounted from committed facts; a machine that another process holds is passed over.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, not_, or_, select, text, update
from sqlalchemy.orm import Session

from questloop.fleet.database import Database, now
from questloop.fleet.jobs import move, move_many
from questloop.fleet.models import VM, Attempt, Claim, Job, Slot
from questloop.fleet.placement import Choice, Demand, SlotView, choices, machine_to_keep_free
from questloop.fleet.states import Health, JobStatus, SlotKind, VMState
from questloop.settings import FleetSettings, Placement

# Literal, not bound, so that the planner can prove that the partial indexes serve.
_WAITING = text("jobs.status IN ('queued', 'pending')")
_QUEUED = text("jobs.status = 'queued'")
_LARGE = text("jobs.status = 'pending' AND jobs.gpus > 1")
_RANK = (Job.priority.desc(), Job.created_at, Job.job_id)
PARK_AT_ONCE = 500


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
        moment = now(session)
        slots = open_slots(session, moment - timedelta(seconds=policy.stale_poll_s))
        reserved = _reserved(session, slots, moment - timedelta(seconds=policy.starving_s))
        unfit: list[Demand] = []
        contended = False
        parked = 0
        while True:
            job = session.execute(_best_waiting(slots, unfit)).first()
            if job is None:
                # What was passed over because of another process is not parked: a slot may be free for it.
                return Idle(contended, parked if contended else parked + _park(session, moment, None))
            demand = Demand(job.gpus, job.memory_mb, job.shared)
            kept = None if reserved is None or reserved[0] == job.job_id else reserved[1]
            options = choices(demand, slots, policy.placement, kept)
            for option in options:
                attempt = _take(session, job.job_id, JobStatus(job.status), demand, option, policy, moment)
                if attempt is not None:
                    return Claimed(attempt, job.job_id)
                contended = True
            if not options:
                parked += _park(session, moment, demand)
            unfit.append(demand)


def open_slots(session: Session, polled_since: datetime) -> list[SlotView]:
    """Every healthy slot without foreign use on machines that take jobs, claimed or not."""
    query = (
        select(Slot.id, Slot.vm_id, Slot.kind, Slot.memory_mb, Slot.claimed_mb, Slot.claims, Slot.exclusive)
        .join(VM)
        .where(
            VM.state == VMState.READY,
            VM.drain_reason.is_(None),
            VM.last_polled >= polled_since,
            Slot.health == Health.HEALTHY,
            not_(Slot.foreign_use),
        )
    )
    return [SlotView(*row) for row in session.execute(query)]


def waiting_query(
    excluded: Collection[Demand] = (), max_gpus: int = 0, cpu: bool = False
) -> Select[*tuple[Any, ...]]:
    """The best waiting job that asks for at most `max_gpus`, or for a CPU slot if `cpu`, locked."""
    fits = Job.gpus.between(1, max_gpus)
    query = select(Job.job_id, Job.status, Job.gpus, Job.memory_mb, Job.shared).where(
        _WAITING, or_(fits, Job.gpus == 0) if cpu else fits
    )
    for demand in excluded:
        query = query.where(not_(_asks_for(demand)))
    return query.order_by(*_RANK).limit(1).with_for_update(skip_locked=True)


def release(session: Session, attempt: int, moment: datetime) -> None:
    """Give back what an attempt holds."""
    vm_id = session.scalar(select(Attempt.vm_id).where(Attempt.id == attempt))
    if vm_id is None:
        return
    session.execute(select(VM.id).where(VM.id == vm_id).with_for_update())
    freed = session.scalars(delete(Claim).where(Claim.attempt_id == attempt).returning(Claim.slot_id)).all()
    if not freed:
        return
    count = select(func.count()).where(Claim.slot_id == Slot.id).scalar_subquery()
    memory = (
        select(func.coalesce(func.sum(Claim.memory_mb), 0)).where(Claim.slot_id == Slot.id).scalar_subquery()
    )
    session.execute(
        update(Slot)
        .where(Slot.id.in_(freed))
        .values(claims=count, claimed_mb=memory, exclusive=False, claim_changed_at=moment)
        .execution_options(synchronize_session=False)
    )
    recount(session, vm_id)


def recount(session: Session, vm_id: int) -> None:
    """Set `available_gpus` from the slots; the machine's row must be locked by this transaction."""
    free = (
        select(func.count())
        .select_from(Slot)
        .where(
            Slot.vm_id == vm_id,
            Slot.kind == SlotKind.CUDA,
            Slot.health == Health.HEALTHY,
            not_(Slot.foreign_use),
            Slot.claims == 0,
        )
        .scalar_subquery()
    )
    session.execute(
        update(VM)
        .where(VM.id == vm_id)
        .values(available_gpus=free)
        .execution_options(synchronize_session=False)
    )


def _best_waiting(slots: list[SlotView], unfit: list[Demand]) -> Select[*tuple[Any, ...]]:
    room: dict[int, int] = {}
    cpu = False
    for slot in slots:
        if slot.exclusive:
            continue
        if slot.kind is SlotKind.CPU:
            cpu = cpu or not slot.claims
        else:
            room[slot.vm_id] = room.get(slot.vm_id, 0) + 1
    return waiting_query(unfit, max(room.values(), default=0), cpu)


def _reserved(session: Session, slots: list[SlotView], before: datetime) -> tuple[str, int] | None:
    """The large job that has waited too long, if any, and the machine kept free for it."""
    query = (
        select(Job.job_id, Job.gpus, Job.memory_mb, Job.shared)
        .where(_LARGE, Job.created_at < before)
        .order_by(*_RANK)
        .limit(1)
    )
    job = session.execute(query).first()
    if job is None:
        return None
    machine = machine_to_keep_free(Demand(job.gpus, job.memory_mb, job.shared), slots)
    return None if machine is None else (job.job_id, machine)


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
    with session.begin_nested() as savepoint:
        machine = select(VM.name).where(
            VM.id == choice.vm_id, VM.state == VMState.READY, VM.drain_reason.is_(None)
        )
        name = session.scalar(machine.with_for_update(skip_locked=True))
        if name is None or not _occupy(session, demand, choice, moment):
            savepoint.rollback()
            return None
        # The fence is drawn while the slots are locked: a later claim of a slot has a higher one.
        attempt = session.scalar(
            insert(Attempt)
            .values(
                job_id=job_id,
                vm_id=choice.vm_id,
                vm_name=name,
                owner=policy.owner,
                owner_until=moment + timedelta(seconds=policy.lease_s),
                claimed_at=moment,
            )
            .returning(Attempt.id)
        )
        assert attempt is not None
        session.execute(
            insert(Claim),
            [
                {"slot_id": slot, "attempt_id": attempt, "memory_mb": demand.memory_mb}
                for slot in choice.slot_ids
            ],
        )
        recount(session, choice.vm_id)
        if status is JobStatus.PENDING:
            move(session, job_id, status, JobStatus.QUEUED, reason="slot_free", pending_since=None)
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
    """The claim itself: one conditional statement over the specific slots."""
    condition = [
        Slot.id.in_(choice.slot_ids),
        Slot.health == Health.HEALTHY,
        not_(Slot.foreign_use),
        not_(Slot.exclusive),
    ]
    shared = demand.shared and demand.gpus > 0
    if shared:
        condition.append(Slot.claimed_mb + demand.memory_mb <= Slot.memory_mb)
    else:
        condition.append(Slot.claims == 0)
    taken = session.execute(
        update(Slot)
        .where(and_(*condition))
        .values(
            claims=Slot.claims + 1,
            claimed_mb=Slot.claimed_mb + demand.memory_mb,
            exclusive=not shared,
            claim_changed_at=moment,
        )
        .returning(Slot.id)
        .execution_options(synchronize_session=False)
    ).all()
    return len(taken) == len(choice.slot_ids)


def _park(session: Session, moment: datetime, demand: Demand | None) -> int:
    """Make queued jobs that nothing is free for pending: those of one demand, or all."""
    waiting = select(Job.job_id).where(_QUEUED)
    if demand is not None:
        waiting = waiting.where(_asks_for(demand))
    waiting = waiting.order_by(*_RANK).limit(PARK_AT_ONCE).with_for_update(skip_locked=True)
    return move_many(
        session, waiting, JobStatus.QUEUED, JobStatus.PENDING, "no_free_slot", pending_since=moment
    )


def _asks_for(demand: Demand) -> ColumnElement[bool]:
    return and_(Job.gpus == demand.gpus, Job.memory_mb == demand.memory_mb, Job.shared.is_(demand.shared))
