"""Repairs what is left of rows that users deleted by hand: running jobs, claims and slots.

PostgreSQL refuses most such deletions; SQLite's own shell does not, since it heeds foreign keys only where it
is told to. Nothing here guesses: what may still run on a machine is given the time after which its runner has
surely ended itself.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from questloop.fleet.attempts import lease_span
from questloop.fleet.claims import recount
from questloop.fleet.database import Database, now
from questloop.fleet.models import VM, Attempt, Claim, Job, Slot
from questloop.fleet.states import JobStatus
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)


def mend(db: Database, runner_lease_s: float) -> None:
    """Find rows whose partners are gone; changes nothing where all is whole."""
    with db.read() as session:
        jobs = list(session.scalars(_jobs_without_attempt()))
        machines = set(session.scalars(_machines_with_wrong_sums()))
        slots = list(session.scalars(select(Slot.id).where(Slot.vm_id.not_in(select(VM.id)))))
        claims = list(session.scalars(_claims_of_nothing()))
    for job_id in jobs:
        _give_attempt(db, job_id, runner_lease_s)
    if claims or slots:
        with db.write() as session:
            session.execute(
                delete(Claim).where(or_(Claim.attempt_id.in_(_claims_of_nothing()), Claim.slot_id.in_(slots)))
            )
            session.execute(delete(Slot).where(Slot.id.in_(slots)))
        log.warning("rows_of_deleted_rows_removed", slots=len(slots), claims=len(claims))
        with db.read() as session:
            machines |= set(session.scalars(_machines_with_wrong_sums()))
    for vm_id in machines:
        _sum_up(db, vm_id)


def _jobs_without_attempt():  # type: ignore[no-untyped-def]
    live = select(Attempt.id).where(Attempt.id == Job.attempt, Attempt.ended_at.is_(None)).exists()
    return select(Job.job_id).where(Job.status == JobStatus.RUNNING, ~live)


def _claims_of_nothing():  # type: ignore[no-untyped-def]
    """Claims whose attempt has ended or is gone."""
    live = select(Attempt.id).where(Attempt.id == Claim.attempt_id, Attempt.ended_at.is_(None)).exists()
    return select(Claim.attempt_id).where(~live)


def _machines_with_wrong_sums():  # type: ignore[no-untyped-def]
    held = select(func.count()).where(Claim.slot_id == Slot.id).scalar_subquery()
    return select(Slot.vm_id).where(Slot.claims != held).distinct()


def _give_attempt(db: Database, job_id: str, runner_lease_s: float) -> None:
    """A running job whose attempt's row is gone gets one again, held until its runner has ended itself."""
    with db.write() as session:
        job = session.scalar(select(Job).where(Job.job_id == job_id).with_for_update())
        if job is None or session.scalar(_jobs_without_attempt().where(Job.job_id == job_id)) is None:
            return
        moment = now(session)
        row = session.get(Attempt, job.attempt) if job.attempt is not None else None
        if row is not None:
            row.ended_at = row.ending = row.reason = None
        else:
            row = Attempt(job_id=job_id, vm_name="(unknown)", claimed_at=job.started_at or moment)
            if job.attempt is not None:
                row.id = job.attempt
            session.add(row)
        row.owner, row.owner_until = "(none)", moment + timedelta(days=3650)
        row.boot_id = row.boot_id or "(unknown)"
        row.lease_until = moment + lease_span(runner_lease_s)
        row.held_since = moment
        session.flush()
        job.attempt = row.id
    log.warning("attempt_of_running_job_was_deleted", job=job_id)


def _sum_up(db: Database, vm_id: int) -> None:
    """Set what a machine's slots say of their claims from the claims."""
    of_slot = Claim.slot_id == Slot.id
    memory = func.coalesce(func.sum(Claim.memory_mb), 0)
    with db.write() as session:
        _lock(session, vm_id)
        count = select(func.count()).where(of_slot).scalar_subquery()
        session.execute(
            update(Slot)
            .where(Slot.vm_id == vm_id, Slot.claims != count)
            .values(
                claims=count,
                claimed_mb=select(memory).where(of_slot).scalar_subquery(),
                exclusive=False,
                claim_changed_at=now(session),
            )
            .execution_options(synchronize_session=False)
        )
        recount(session, vm_id)


def _lock(session: Session, vm_id: int) -> None:
    session.execute(select(VM.id).where(VM.id == vm_id).with_for_update())
