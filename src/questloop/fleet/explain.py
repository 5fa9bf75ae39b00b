"""Explains in sentences why a job is not running, or why it failed."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, selectinload

from questloop.fleet import claims
from questloop.fleet.claims import MIG_PREFIX, stale_poll_s
from questloop.fleet.database import Database, now
from questloop.fleet.jobs import UnknownJobError, is_final, is_retryable
from questloop.fleet.models import VM, Attempt, Job
from questloop.fleet.placement import Demand, SlotView, could_serve, has_room
from questloop.fleet.requeue import Backoff
from questloop.fleet.states import Health, JobStatus, VMState
from questloop.settings import FleetSettings

_DISPATCHERS_ARE_LATE = timedelta(seconds=30)


def explain(db: Database, job_id: str, settings: FleetSettings) -> list[str]:
    """What the job waits for or how it ended, the most telling first."""
    with db.read() as session:
        job = session.get(Job, job_id)
        if job is None:
            raise UnknownJobError(job_id)
        moment = now(session)
        match job.status:
            case JobStatus.QUEUED | JobStatus.PENDING:
                return _waiting(session, job, settings, moment)
            case JobStatus.RUNNING:
                return _running(session, job, moment)
            case JobStatus.LOST:
                return [f"lost ({job.failure_reason}); the requeue manager queues it again"]
            case JobStatus.FAILED:
                return _failed(job, settings)
            case _:
                lines = [f"{job.status} {_ago(moment, job.finished_at)}"]
                return lines + ([f"log: {job.log_note}"] if job.log_note else [])


def machine_problem(vm: VM, job: Job, moment: datetime, settings: FleetSettings) -> str | None:
    """Why the job cannot be put on this machine now; None where it can."""
    if vm.state is VMState.NEW:
        return "new, and no poller has looked at it yet: does `questloop fleet poller` run?"
    if vm.state is not VMState.READY:
        return f"{vm.state.value}" + (f": {vm.state_detail}" if vm.state_detail else "")
    if vm.drain_reason is not None:
        undo = f"`questloop fleet vm drain {vm.name} --off` undoes it"
        return f"takes no new job ({vm.drain_reason.value}); {undo}"
    if vm.last_polled is None or moment - vm.last_polled > timedelta(seconds=stale_poll_s(settings)):
        return f"last polled {_ago(moment, vm.last_polled)}: does `questloop fleet poller` run?"
    if vm.retry_at is not None and vm.retry_at > moment:
        wait_s = (vm.retry_at - moment).total_seconds()
        return (
            f"failed to launch a job {vm.launch_failures} time(s) in a row: takes the next in {wait_s:.0f} s"
        )
    demand = Demand(job.gpus, job.memory_mb, job.shared)
    kind = "CPU slot" if job.gpus == 0 else "GPU"
    healthy = [slot for slot in vm.slots if slot.health is Health.HEALTHY]
    views = {
        slot.id: SlotView(
            *(slot.id, vm.id, slot.kind, slot.memory_mb, slot.claimed_mb, slot.claims, slot.exclusive),
            sliced=slot.uuid.startswith(MIG_PREFIX),
        )
        for slot in healthy
    }
    able = [slot for slot in healthy if could_serve(views[slot.id], demand)]
    if len(able) < demand.slots:
        memory = f" with {job.memory_mb} MB" if job.memory_mb else ""
        sick = len(vm.slots) - len(healthy)
        slices = sum(view.sliced for view in views.values())
        if demand.gpus > 1 and slices:
            memory += f"; its {slices} MIG slice(s) do not count, a process sees one at most"
        return f"has {len(able)} healthy {kind}(s){memory}, {demand.slots} needed" + (
            f"; {sick} not healthy ({vm.state_detail or 'see fleet vm list'})" if sick else ""
        )
    foreign = sum(slot.foreign_use for slot in able)
    free = sum(not slot.foreign_use and has_room(views[slot.id], demand) for slot in able)
    if free < demand.slots:
        taken = len(able) - free - foreign
        return f"{free} of {len(able)} {kind}(s) free, {demand.slots} needed; {taken} taken by jobs" + (
            f", {foreign} used by processes outside the fleet" if foreign else ""
        )
    return None


def _waiting(session: Session, job: Job, settings: FleetSettings, moment: datetime) -> list[str]:
    vms = session.scalars(select(VM).order_by(VM.name).options(selectinload(VM.slots))).all()
    if not vms:
        return ["no machine: add one with `questloop fleet vm add`, or run `questloop fleet up` for this one"]
    problems = {vm.name: machine_problem(vm, job, moment, settings) for vm in vms}
    lines = []
    better = session.scalar(
        select(func.count()).where(
            Job.status.in_((JobStatus.QUEUED, JobStatus.PENDING)),
            or_(
                Job.priority > job.priority,
                (Job.priority == job.priority) & (Job.created_at < job.created_at),
            ),
        )
    )
    if better:
        lines.append(f"{better} waiting job(s) come first, by priority and then age")
    large, kept = claims.kept_free(session, settings.pending_timeout_s, claims.stale_poll_s(settings))
    if kept is not None and large != job.job_id:
        name = next(vm.name for vm in vms if vm.id == kept)
        problems[name] = problems[name] or f"kept free for the large job {large}, which has waited long"
    fitting = [name for name, problem in problems.items() if problem is None]
    if fitting:
        waited = moment - job.created_at
        lines.append(
            f"fits on {', '.join(fitting)} now"
            + (
                ": does `questloop fleet dispatcher` run?"
                if waited > _DISPATCHERS_ARE_LATE and not better
                else "; a dispatcher takes it at its next look"
            )
        )
    lines += [f"{name}: {problem}" for name, problem in problems.items() if problem is not None]
    return lines


def _running(session: Session, job: Job, moment: datetime) -> list[str]:
    attempt = session.get(Attempt, job.attempt) if job.attempt is not None else None
    if attempt is None:
        return [
            "running, and the row of its attempt was deleted: the requeue manager gives it one and an end"
        ]
    vm = session.get(VM, attempt.vm_id) if attempt.vm_id is not None else None
    lines = [f"running on {attempt.vm_name}, claimed {_ago(moment, attempt.claimed_at)}"]
    if job.cancel_requested_at is not None:
        lines.append("to be cancelled: its processes are being ended")
    if job.log_note:
        lines.append(f"log: {job.log_note}")
    until = "the next scan" if attempt.lease_until is None else f"{attempt.lease_until:%H:%M:%S} UTC"
    if vm is None:
        lines.append(
            f"its machine was removed from the table: lost after {until}, when its runner has ended itself"
        )
        return lines
    if attempt.held_since is not None:
        lines.append(
            f"held: {attempt.vm_name} stopped answering {_ago(moment, attempt.held_since)}; queued again "
            f"once it shows another boot id, or after {until}, when its runner has ended itself"
        )
    if vm.state is not VMState.READY:
        lines.append(f"{vm.name} is {vm.state.value}" + (f": {vm.state_detail}" if vm.state_detail else ""))
    if attempt.owner_until < moment:
        lines.append("no dispatcher watches it: does `questloop fleet dispatcher` run?")
    elif attempt.launched_at is None:
        lines.append("being launched")
    return lines


def _failed(job: Job, settings: FleetSettings) -> list[str]:
    exit_code = "" if job.exit_code is None else f" (exit code {job.exit_code})"
    lines = [f"failed: {job.failure_reason or 'no reason known'}{exit_code}"]
    if job.failure_detail:
        lines.append(job.failure_detail)
    if job.log_note:
        lines.append(f"log: {job.log_note}")
    if not is_final(job):
        wait = Backoff(settings.retry_backoff_s, settings.retry_backoff_max_s).wait(job.retry_count)
        lines.append(
            f"retried {wait.total_seconds():.0f} s after it failed ({job.retry_count}/{job.max_retries})"
        )
    elif job.failure_reason is not None and job.failure_reason.retried_if_asked and not job.retry_errors:
        lines.append(
            "not retried: its own program failed; --retry-errors at submit asks for retries, "
            "`questloop fleet retry` queues it again"
        )
    elif not is_retryable(job):
        lines.append("not retried: it would fail again; `questloop fleet retry` queues it all the same")
    else:
        lines.append(
            f"no retry left ({job.retry_count}/{job.max_retries}); `questloop fleet retry` gives new ones"
        )
    return lines


def _ago(moment: datetime, earlier: datetime | None) -> str:
    if earlier is None:
        return "never"
    return f"{max(0, (moment - earlier).total_seconds()):.0f} s ago"
