"""The requeue manager: jobs that failed, were lost, or waited too long go back to the queue.

Each scan reads candidates and then moves them one by one under the condition that nothing has changed since;
a job that completes in between stays completed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from questloop.fleet import attempts, mending
from questloop.fleet.database import Database, DatabaseUnavailable, now
from questloop.fleet.jobs import move, move_many
from questloop.fleet.models import Job
from questloop.fleet.states import FailureReason, JobStatus
from questloop.settings import FleetSettings
from questloop.telemetry import metrics
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
_BATCH = 200


@dataclass(frozen=True)
class Backoff:
    """Wait before a retry: `first_s`, doubled each time, at most `max_s`."""

    first_s: float = 10
    max_s: float = 600

    def wait(self, retry_count: int) -> timedelta:
        """The wait after the failure of the attempt that `retry_count` retries came before.

        >>> Backoff(10, 60).wait(2).total_seconds()
        40.0
        """
        return timedelta(seconds=min(self.first_s * 2 ** min(retry_count, 30), self.max_s))

    def due(self, moment: datetime) -> Iterator[ColumnElement[bool]]:
        """Conditions of which a failed job meets one when its wait is over."""
        count = 0
        while self.wait(count) < self.wait(count + 1):
            yield and_(Job.retry_count == count, Job.finished_at <= moment - self.wait(count))
            count += 1
        yield and_(Job.retry_count >= count, Job.finished_at <= moment - self.wait(count))


class RequeueManager:
    """Runs the scans every few seconds. Any number may run."""

    def __init__(self, db: Database, settings: FleetSettings) -> None:
        self.db = db
        self.settings = settings
        self.backoff = Backoff(settings.retry_backoff_s, settings.retry_backoff_max_s)

    async def run(self, stop: asyncio.Event) -> None:
        """Scan until `stop` is set."""
        while not stop.is_set():
            try:
                await asyncio.to_thread(self.scan)
            except DatabaseUnavailable as error:
                log.warning("requeue_waits", error=str(error))
            except Exception:
                log.exception("requeue_scan_failed")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.settings.sweep_interval_s)

    def scan(self) -> Counter[str]:
        """One pass; returns how many jobs were queued again, by reason."""
        mending.mend(self.db, self.settings.runner_lease_s)
        attempts.lose_expired(self.db, self.settings.set_aside_after)
        moved = retry_failed(self.db, self.backoff)
        moved += requeue_lost(self.db)
        moved += requeue_pending(self.db, timedelta(seconds=self.settings.pending_timeout_s))
        for reason, count in moved.items():
            metrics.fleet_requeue_total.labels(reason).inc(count)
            log.info("requeued", reason=reason, jobs=count)
        return moved


def retry_failed(db: Database, backoff: Backoff) -> Counter[str]:
    """Queue failed jobs again that have retries left, a retryable reason and their wait behind them."""
    with db.read() as session:
        moment = now(session)
    retryable = [reason for reason in FailureReason if reason.retryable]
    if_asked = [reason for reason in FailureReason if reason.retried_if_asked]
    query = select(Job).where(
        Job.status == JobStatus.FAILED,
        Job.retry_count < Job.max_retries,
        or_(
            Job.failure_reason.in_(retryable),
            Job.failure_reason.is_(None),
            and_(Job.retry_errors, Job.failure_reason.in_(if_asked)),
        ),
        or_(*backoff.due(moment)),
    )
    moved: Counter[str] = Counter()
    for job in _candidates(db, query):
        reason = job.failure_reason.value if job.failure_reason else "failed"
        moved[reason] += _requeue(db, job, JobStatus.FAILED, reason, retry_count=job.retry_count + 1)
    return moved


def requeue_lost(db: Database) -> Counter[str]:
    """Queue lost jobs again, or fail them where no retry is left."""
    moved: Counter[str] = Counter()
    for job in _candidates(db, select(Job).where(Job.status == JobStatus.LOST)):
        reason = job.failure_reason.value if job.failure_reason else "lost"
        if job.retry_count >= job.max_retries:
            with db.write() as session:
                move(session, job.job_id, JobStatus.LOST, JobStatus.FAILED, fence=job.attempt, reason=reason)
            continue
        moved[reason] += _requeue(db, job, JobStatus.LOST, reason, retry_count=job.retry_count + 1)
    return moved


def requeue_pending(db: Database, timeout: timedelta) -> Counter[str]:
    """Queue jobs again that have been pending for longer than `timeout`; this uses up no retry."""
    with db.write() as session:
        late = (
            select(Job.job_id)
            .where(
                Job.status == JobStatus.PENDING,
                func.coalesce(Job.pending_since, Job.created_at) < now(session) - timeout,
            )
            .limit(_BATCH)
            .with_for_update(skip_locked=True)
        )
        moved = move_many(
            session, late, JobStatus.PENDING, JobStatus.QUEUED, "pending_too_long", pending_since=None
        )
    return Counter({"pending_too_long": moved} if moved else {})


def _candidates(db: Database, query: Select[Job]) -> list[Job]:
    with db.read() as session:
        return list(session.scalars(query.order_by(Job.finished_at, Job.job_id).limit(_BATCH)))


def _requeue(db: Database, job: Job, before: JobStatus, reason: str, retry_count: int) -> int:
    with db.write() as session:
        return move(
            session,
            job.job_id,
            before,
            JobStatus.QUEUED,
            fence=job.attempt,
            reason=reason,
            pending_since=None,
            finished_at=None,
            retry_count=retry_count,
        )
