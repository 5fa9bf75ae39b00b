"""Decides from the failures on a machine whether it gets a pause or no more jobs.

A job's own fault says nothing of its machine. What may be the machine's counts once per job and once per
command, so that ten jobs with one mistake are one word against it.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from questloop.fleet.database import now
from questloop.fleet.models import VM, Job
from questloop.fleet.states import DrainReason, Ending, FailureReason, JobKind

_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0


def judge_machine(
    session: Session, vm_id: int | None, job: Job, ending: Ending, reason: FailureReason | None, limit: int
) -> None:
    """Note an attempt's end on its machine; after `limit` failures with nothing in common it is drained.

    A job that completes there clears the machine.
    """
    if vm_id is None or ending is Ending.CANCELLED:
        return
    if ending is Ending.COMPLETED:
        session.execute(
            update(VM)
            .where(VM.id == vm_id, VM.failures > 0)
            .values(failures=0, blamed_by=[])
            .execution_options(synchronize_session=False)
        )
        return
    if reason is None or not reason.blames_machine:
        return
    machine = select(VM.blamed_by, VM.drain_reason).where(VM.id == vm_id).with_for_update()
    row = session.execute(machine).first()
    if row is None:
        return
    known: list[Any] = row.blamed_by
    command = command_key(job)
    if any(job.job_id == other or command == its for other, its in known):
        return
    known = [*known, [job.job_id, command]]
    drain = row.drain_reason or (DrainReason.FAILING if len(known) >= limit else None)
    session.execute(
        update(VM)
        .where(VM.id == vm_id)
        .values(failures=len(known), blamed_by=known[-limit:], drain_reason=drain)
        .execution_options(synchronize_session=False)
    )


def command_key(job: Job) -> str:
    """What jobs of one command have in common: the program and its script, not the values they are given.

    >>> command_key(Job(kind=JobKind.COMMAND, arguments=["python", "-u", "train.py", "--lr", "0.1"]))
    'python train.py'
    """
    if job.kind is JobKind.COMMAND and isinstance(job.arguments, list) and job.arguments:
        program, *rest = map(str, job.arguments)
        script = next((item for item in rest if not item.startswith("-")), "")
        return f"{program} {script}".strip()[:200]
    return json.dumps([job.kind, job.model, job.dataset, job.reward_function])[:400]


def pause_machine(session: Session, vm_id: int) -> None:
    """Give a machine that failed to launch a job no other for a while, twice as long each time."""
    failures = session.scalar(select(VM.launch_failures).where(VM.id == vm_id).with_for_update())
    if failures is None:
        return
    pause_s = min(_FIRST_PAUSE_S * 2 ** min(failures, 10), _LONGEST_PAUSE_S)
    session.execute(
        update(VM)
        .where(VM.id == vm_id)
        .values(launch_failures=failures + 1, retry_at=now(session) + timedelta(seconds=pause_s))
        .execution_options(synchronize_session=False)
    )


def launches_again(session: Session, vm_id: int) -> None:
    """End a machine's pause."""
    session.execute(
        update(VM)
        .where(VM.id == vm_id, VM.launch_failures > 0)
        .values(launch_failures=0, retry_at=None)
        .execution_options(synchronize_session=False)
    )
