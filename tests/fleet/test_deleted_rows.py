"""Rows that a user deletes by hand while jobs run: everything ends in bounded time, and slots come back."""

import sqlite3
from datetime import timedelta

import pytest
from sqlalchemy import select, text, update

from questloop.errors import QuestloopError
from questloop.fleet import attempts, claims, jobs, machines, requeue
from questloop.fleet.claims import Claimed
from questloop.fleet.explain import explain
from questloop.fleet.models import VM, Attempt, Claim, Slot
from questloop.fleet.states import JobStatus, VMState
from questloop.settings import FleetSettings

from .helpers import POLICY, add_vm, check_consistent, poll, status, submit

SETTINGS = FleetSettings(retry_backoff_s=0, runner_lease_s=60)


@pytest.fixture
def db(sqlite_db):
    return sqlite_db


def scan(db):
    requeue.RequeueManager(db, SETTINGS).scan()


def running(db, armed=True, **values):
    """A job that was claimed and, where asked, armed for a minute."""
    job_id = submit(db, **values)
    claimed = claims.claim(db, POLICY)
    assert isinstance(claimed, Claimed)
    if armed:
        assert attempts.arm(db, claimed.attempt, POLICY.owner, "boot-1", 60)
    return job_id, claimed.attempt


def by_shell(db, *statements):
    """As SQLite's own shell does, which heeds no foreign keys."""
    connection = sqlite3.connect(db.url.database)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def lease_passes(db):
    with db.write() as session:
        past = session.scalar(select(Attempt.claimed_at)) - timedelta(hours=1)
        session.execute(update(Attempt).values(lease_until=past))


DELETIONS = {
    "machine": ["DELETE FROM vms"],
    "machine and slots": ["DELETE FROM slots", "DELETE FROM vms"],
    "attempt": ["DELETE FROM attempts"],
    "attempt and claims": ["DELETE FROM attempts", "DELETE FROM claims"],
    "machine and attempt": ["DELETE FROM vms", "DELETE FROM attempts"],
    "claims": ["DELETE FROM claims"],
}


@pytest.mark.parametrize("deleted", DELETIONS)
@pytest.mark.parametrize("armed", [True, False])
def test_a_running_job_ends_and_runs_again(db, deleted, armed):
    add_vm(db, "vm", 2)
    job_id, _ = running(db, armed)
    by_shell(db, *DELETIONS[deleted])
    assert explain(db, job_id, SETTINGS)
    scan(db)
    assert status(db, job_id) in ("running", "queued")
    if status(db, job_id) == "running" and deleted == "claims":
        attempts.finish(db, jobs.get(db, job_id).attempt, attempts.Outcome(attempts.Ending.COMPLETED))
        assert machines.get(db, "vm").available_gpus == 2
        return
    if armed or "attempt" in deleted:
        assert status(db, job_id) == "running", "its runner may still go on"
        lease_passes(db)
    scan(db)
    scan(db)
    assert status(db, job_id) == "queued"
    if "machine" in deleted:
        add_vm(db, "other", 1)
    again = claims.claim(db, POLICY)
    assert isinstance(again, Claimed)
    check_consistent(db)


def test_a_deleted_job_gives_its_slots_back(db):
    add_vm(db, "vm", 1)
    job_id, _ = running(db)
    by_shell(db, "DELETE FROM jobs")
    scan(db)
    assert machines.get(db, "vm").available_gpus == 0, "its runner may still go on"
    lease_passes(db)
    scan(db)
    assert machines.get(db, "vm").available_gpus == 1
    assert job_id


def test_nothing_is_changed_where_all_is_whole(db):
    add_vm(db, "vm", 2, cpus=1)
    held, _ = running(db)
    finished, attempt = running(db, gpus=0)
    attempts.finish(db, attempt, attempts.Outcome(attempts.Ending.COMPLETED))
    with db.read() as session:
        before = [tuple(row) for row in session.execute(text("SELECT * FROM slots"))]
    scan(db)
    with db.read() as session:
        assert [tuple(row) for row in session.execute(text("SELECT * FROM slots"))] == before
    assert (status(db, held), status(db, finished)) == ("running", "completed")


@pytest.mark.parametrize("state", [state for state in VMState if state is not VMState.READY])
def test_jobs_of_a_machine_in_any_state_but_ready_end(db, state):
    vm = add_vm(db, "vm", 1)
    job_id, _ = running(db)
    poll(db, vm, state=state, slots=None)
    scan(db)
    assert status(db, job_id) == "running"
    lease_passes(db)
    scan(db)
    assert status(db, job_id) == "queued"


def test_a_machine_that_answers_polls_and_no_looks_holds_no_job_for_ever(db):
    add_vm(db, "vm", 1)
    job_id, attempt = running(db)
    attempts.mark_held(db, [attempt])
    lease_passes(db)
    assert machines.get(db, "vm").state is VMState.READY
    scan(db)
    assert status(db, job_id) == "queued"


def test_the_application_cannot_delete_what_others_refer_to(db):
    add_vm(db, "vm", 1)
    running(db)
    for table in ("vms", "slots", "jobs"):
        with pytest.raises(QuestloopError, match="FOREIGN KEY"), db.write() as session:
            session.execute(text(f"DELETE FROM {table}"))


def test_removing_a_machine_by_force_queues_its_jobs_again(db):
    add_vm(db, "vm", 1)
    job_id, _ = running(db)
    with pytest.raises(QuestloopError, match=rf"runs {job_id}.*--force"):
        machines.remove(db, "vm")
    machines.remove(db, "vm", force=True)
    assert "removed from the table" in "".join(explain(db, job_id, SETTINGS))
    lease_passes(db)
    scan(db)
    assert jobs.get(db, job_id).status is JobStatus.QUEUED
    with db.read() as session:
        assert not session.scalars(select(Claim)).all()
        assert not session.scalars(select(Slot)).all()
        assert not session.scalars(select(VM)).all()
