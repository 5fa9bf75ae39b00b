"""Attempts of jobs: who watches each, how long its runner may go on alone, and how it ends.

The order of writes makes every crash harmless:

1. `claim` commits the attempt before anything is sent to a machine.
2. `arm` commits the machine's boot id and a time by which the runner has surely ended itself, before the
   launch is sent. The launch carries the same boot id and a deadline on the machine's own clock, read before
   `arm`; a machine refuses a launch of another boot or after its deadline. So an attempt that was never armed
   runs nowhere, and an armed one runs on that boot only and not beyond `lease_until`.
3. The launch is idempotent on the machine: the attempt's folder is made once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from questloop.fleet import blame, memory
from questloop.fleet.claims import release
from questloop.fleet.database import Database, now
from questloop.fleet.jobs import move
from questloop.fleet.models import VM, Attempt, Claim, Job, Slot
from questloop.fleet.states import Ending, FailureReason, JobStatus, VMState

# Time beyond the runner's own deadline: its grace for ending the job, and a clock that runs 1% slow.
_LEASE_SLACK_S = 30.0
_CLOCK_DRIFT = 0.01


@dataclass(frozen=True)
class HeldSlot:
    """A slot of an attempt. An attempt below `floor`, the lowest live fence on the slot, is dead."""

    uuid: str
    floor: int


@dataclass(frozen=True)
class Assignment:
    """An attempt with all that is needed to run and watch it."""

    attempt: Attempt
    job: Job
    vm: VM
    slots: tuple[HeldSlot, ...]


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. `counted` says whether a lost one uses up a retry."""

    ending: Ending
    reason: FailureReason | None = None
    exit_code: int | None = None
    detail: str | None = None
    counted: bool = True


def load(db: Database, attempt: int) -> Assignment | None:
    """The attempt with its job, machine and slots; None once it has ended."""
    return next(iter(load_many(db, [attempt])), None)


def load_many(db: Database, ids: Collection[int]) -> list[Assignment]:
    """Those of the attempts that have not ended."""
    if not ids:
        return []
    with db.read() as session:
        rows = session.execute(
            select(Attempt, Job, VM)
            .join(Job, Job.job_id == Attempt.job_id)
            .join(VM, VM.id == Attempt.vm_id)
            .where(Attempt.id.in_(ids), Attempt.ended_at.is_(None))
        ).all()
        others = aliased(Claim)
        floor = select(func.min(others.attempt_id)).where(others.slot_id == Slot.id).scalar_subquery()
        held: dict[int, list[HeldSlot]] = defaultdict(list)
        for attempt, uuid, lowest in session.execute(
            select(Claim.attempt_id, Slot.uuid, floor)
            .join(Slot, Claim.slot_id == Slot.id)
            .where(Claim.attempt_id.in_(ids))
            .order_by(Slot.index, Slot.id)
        ):
            held[attempt].append(HeldSlot(uuid, lowest))
    return [Assignment(attempt, job, vm, tuple(held[attempt.id])) for attempt, job, vm in rows]


def adopt(db: Database, owner: str, lease_s: float, limit: int = 50) -> list[int]:
    """Take over live attempts whose owner has let its lease pass."""
    with db.write() as session:
        moment = now(session)
        stale = (
            select(Attempt.id)
            .where(Attempt.ended_at.is_(None), Attempt.owner_until < moment)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        query = (
            update(Attempt)
            .where(Attempt.id.in_(stale), Attempt.ended_at.is_(None), Attempt.owner_until < moment)
            .values(owner=owner, owner_until=moment + timedelta(seconds=lease_s))
            .returning(Attempt.id)
            .execution_options(synchronize_session=False)
        )
        return list(session.scalars(query))


def renew(db: Database, owner: str, lease_s: float) -> set[int]:
    """Renew the owner's hold on its live attempts and return them; what is missing was adopted or has ended.

    A hold that has passed is not renewed: another dispatcher may be taking it.
    """
    with db.write() as session:
        moment = now(session)
        query = (
            update(Attempt)
            .where(Attempt.owner == owner, Attempt.ended_at.is_(None), Attempt.owner_until >= moment)
            .values(owner_until=moment + timedelta(seconds=lease_s))
            .returning(Attempt.id)
            .execution_options(synchronize_session=False)
        )
        return set(session.scalars(query))


def let_go(db: Database, owner: str) -> None:
    """Offer the owner's attempts to other dispatchers at once; called when one stops in order."""
    with db.write() as session:
        session.execute(
            update(Attempt)
            .where(Attempt.owner == owner, Attempt.ended_at.is_(None))
            .values(owner_until=now(session) - timedelta(seconds=1))
            .execution_options(synchronize_session=False)
        )


def arm(db: Database, attempt: int, owner: str, boot_id: str, runner_lease_s: float) -> bool:
    """Allow one launch on the machine's boot `boot_id`; must commit before the launch is sent.

    The caller has read the machine's clock before. False if the attempt has ended, belongs to another
    dispatcher by now, was armed for an earlier boot, or its job is to be cancelled.
    """
    with db.write() as session:
        moment = now(session)
        cancelled = (
            select(Job.job_id)
            .where(Job.job_id == Attempt.job_id, Job.cancel_requested_at.is_not(None))
            .exists()
        )
        query = (
            update(Attempt)
            .where(
                Attempt.id == attempt,
                Attempt.owner == owner,
                Attempt.ended_at.is_(None),
                or_(Attempt.boot_id.is_(None), Attempt.boot_id == boot_id),
                ~cancelled,
            )
            .values(boot_id=boot_id, lease_until=_later(moment + lease_span(runner_lease_s)))
            .returning(Attempt.id)
            .execution_options(synchronize_session=False)
        )
        return session.execute(query).first() is not None


def extend(db: Database, attempts: Collection[int], owner: str, runner_lease_s: float) -> set[int]:
    """Move `lease_until` on; must commit before the machine is told. Returns those that may be told."""
    if not attempts:
        return set()
    with db.write() as session:
        moment = now(session)
        query = (
            update(Attempt)
            .where(Attempt.id.in_(attempts), Attempt.owner == owner, Attempt.ended_at.is_(None))
            .values(lease_until=_later(moment + lease_span(runner_lease_s)), held_since=None)
            .returning(Attempt.id)
            .execution_options(synchronize_session=False)
        )
        return set(session.scalars(query))


def mark_launched(db: Database, attempt: int) -> None:
    """Note that the machine has confirmed the launch: it launches, whatever failed there before."""
    with db.write() as session:
        moved = session.scalar(
            update(Attempt)
            .where(Attempt.id == attempt, Attempt.launched_at.is_(None))
            .values(launched_at=now(session))
            .returning(Attempt.vm_id)
            .execution_options(synchronize_session=False)
        )
        if moved is not None:
            blame.launches_again(session, moved)


def note_log(db: Database, job_id: str, note: str | None) -> None:
    """Say what is missing of a job's log, or (None) that nothing is."""
    with db.write() as session:
        session.execute(
            update(Job)
            .where(Job.job_id == job_id)
            .values(log_note=note)
            .execution_options(synchronize_session=False)
        )


def mark_held(db: Database, attempts: Collection[int]) -> None:
    """Note that these attempts' machine does not answer: they are held."""
    if not attempts:
        return
    with db.write() as session:
        session.execute(
            update(Attempt)
            .where(Attempt.id.in_(attempts), Attempt.ended_at.is_(None), Attempt.held_since.is_(None))
            .values(held_since=now(session))
            .execution_options(synchronize_session=False)
        )


def finish(db: Database, attempt: int, outcome: Outcome, set_aside_after: int = 3) -> bool:
    """End an attempt: the job's status, the attempt's row and its slots in one transaction.

    Only the job's latest attempt can end a job, and only once: a second call, or one from a dispatcher that
    was presumed dead, returns False and changes nothing.
    """
    with db.write() as session:
        row = session.execute(select(Attempt.job_id, Attempt.vm_id).where(Attempt.id == attempt)).first()
        if row is None:
            return False
        return _end(session, row.job_id, row.vm_id, attempt, outcome, now(session), set_aside_after)


def lose_expired(db: Database, set_aside_after: int = 3) -> list[str]:
    """End attempts that nobody can watch and whose runner has ended itself by now, and return their jobs.

    These are attempts on machines in any state but ready, those that a dispatcher holds because it gets no
    answer, and those whose machine or job was deleted. Of the last, one that was never armed runs nowhere
    and ends at once.
    """
    with db.read() as session:
        moment = now(session)
        deleted = or_(VM.id.is_(None), Job.job_id.is_(None))
        unwatched = or_(deleted, VM.state != VMState.READY, Attempt.held_since.is_not(None))
        query = (
            select(Attempt.id)
            .outerjoin(VM, VM.id == Attempt.vm_id)
            .outerjoin(Job, Job.job_id == Attempt.job_id)
            .where(
                Attempt.ended_at.is_(None),
                or_(
                    and_(Attempt.lease_until < moment, unwatched),
                    and_(Attempt.lease_until.is_(None), deleted),
                ),
            )
        )
        expired = list(session.scalars(query))
    lost = []
    for attempt in expired:
        job_id = _lose(db, attempt, set_aside_after)
        if job_id is not None:
            lost.append(job_id)
    return lost


def _lose(db: Database, attempt: int, set_aside_after: int) -> str | None:
    with db.write() as session:
        job_id = session.scalar(select(Attempt.job_id).where(Attempt.id == attempt))
        job = session.scalar(select(Job.job_id).where(Job.job_id == job_id).with_for_update())
        row = session.scalar(select(Attempt).where(Attempt.id == attempt).with_for_update())
        moment = now(session)
        if row is None or row.ended_at is not None:
            return None
        gone = row.vm_id is None or session.get(VM, row.vm_id) is None
        if row.lease_until is None:
            if not gone and job is not None:
                return None
        elif row.lease_until >= moment:
            return None
        detail = f"machine {row.vm_name!r} was removed from the table" if gone else None
        outcome = Outcome(
            Ending.LOST,
            FailureReason.MACHINE_UNREACHABLE,
            detail=detail,
            counted=row.lease_until is not None,
        )
        ended = _end(session, row.job_id, row.vm_id, attempt, outcome, moment, set_aside_after)
        return row.job_id if ended else None


def lease_span(runner_lease_s: float) -> timedelta:
    """Time after which a runner told to go on for `runner_lease_s` has surely ended itself."""
    return timedelta(seconds=runner_lease_s * (1 + _CLOCK_DRIFT) + _LEASE_SLACK_S)


def live(db: Database, owner: str | None = None) -> Sequence[int]:
    """Attempts that have not ended, of one owner or of all."""
    query = select(Attempt.id).where(Attempt.ended_at.is_(None))
    with db.read() as session:
        return session.scalars(query if owner is None else query.where(Attempt.owner == owner)).all()


def _later(moment: datetime) -> ColumnElement[datetime]:
    """`lease_until` never moves back: the machine may hold the later deadline."""
    return case((Attempt.lease_until > moment, Attempt.lease_until), else_=moment)


def _end(
    session: Session,
    job_id: str,
    vm_id: int | None,
    attempt: int,
    outcome: Outcome,
    moment: datetime,
    set_aside_after: int,
) -> bool:
    job = session.scalar(select(Job).where(Job.job_id == job_id).with_for_update())
    if job is None:  # its row was deleted: the attempt and its slots are all that is left
        return _close(session, attempt, Ending.LOST, outcome, moment)
    ending = outcome.ending
    if job.cancel_requested_at is not None and ending is not Ending.COMPLETED:
        ending = Ending.CANCELLED
    status = JobStatus(ending.value)
    reason = None if ending is Ending.CANCELLED else outcome.reason
    detail = outcome.detail
    larger = None
    if reason is FailureReason.OUT_OF_GPU_MEMORY:
        larger, detail = memory.to_ask_for(session, job, attempt, detail)
    if not move(
        session,
        job_id,
        JobStatus.RUNNING,
        status,
        fence=attempt,
        reason=reason and reason.value,
        detail=detail,
        finished_at=moment,
        cancel_requested_at=None,
        failure_reason=reason,
        failure_detail=detail,
        exit_code=outcome.exit_code,
    ):
        return False
    if status is JobStatus.LOST and not outcome.counted:
        move(session, job_id, JobStatus.LOST, JobStatus.QUEUED, reason="not_counted", finished_at=None)
    if larger is not None:
        move(
            session,
            job_id,
            JobStatus.FAILED,
            JobStatus.QUEUED,
            reason="larger_gpu",
            detail=f"asks for {larger} MB",
            finished_at=None,
            retry_count=job.retry_count + 1,
            memory_before_mb=job.memory_mb,
            memory_mb=larger,
        )
    _close(session, attempt, ending, outcome, moment, reason)
    blame.judge_machine(session, vm_id, job, ending, reason, set_aside_after)
    return True


def _close(
    session: Session,
    attempt: int,
    ending: Ending,
    outcome: Outcome,
    moment: datetime,
    reason: FailureReason | None = None,
) -> bool:
    session.execute(
        update(Attempt)
        .where(Attempt.id == attempt)
        .values(ended_at=moment, ending=ending, reason=reason, exit_code=outcome.exit_code)
        .execution_options(synchronize_session=False)
    )
    release(session, attempt, moment)
    return True
