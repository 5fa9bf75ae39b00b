"""Looks up in the database on which machines attempts of jobs ran."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from questloop.errors import UsageError
from questloop.fleet.database import Database
from questloop.fleet.models import VM, Attempt


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
