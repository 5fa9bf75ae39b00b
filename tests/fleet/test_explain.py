"""What `explain` says and what the fleet then does are the same."""

import random
from datetime import timedelta

import pytest
from sqlalchemy import update

from questloop.fleet import attempts, claims, jobs, machines, requeue
from questloop.fleet.attempts import Outcome
from questloop.fleet.claims import Claimed
from questloop.fleet.database import now
from questloop.fleet.explain import explain
from questloop.fleet.models import VM
from questloop.fleet.states import Ending, FailureReason, Health, VMState
from questloop.settings import FleetSettings

from .helpers import POLICY, add_vm, cpu, gpu, poll, submit

SETTINGS = FleetSettings(retry_backoff_s=0, pending_timeout_s=0.05)


def build(db, draw):
    """A fleet in some odd state, by the random numbers of `draw`."""
    for number in range(draw.randint(1, 3)):
        name = f"vm{number}"
        vm = add_vm(db, name, 0)
        slots = []
        for index in range(draw.randint(0, 3)):
            reading = gpu(
                index,
                name,
                memory_mb=draw.choice([24_000, 80_000]),
                health=draw.choice([Health.HEALTHY, Health.HEALTHY, Health.UNHEALTHY]),
                foreign_processes=draw.random() < 0.2,
            )
            slots.append(reading)
        slots += [cpu(index) for index in range(draw.randint(0, 2))]
        poll(db, vm, *slots)
    for _ in range(draw.randint(0, 3)):
        submit(db, gpus=draw.randint(0, 2))
        claims.claim(db, POLICY)
    for job in jobs.find(db):
        if job.status.value in ("queued", "pending"):
            jobs.cancel(db, job.job_id)
    for vm in machines.find(db):
        with db.write() as session:
            values = draw.choice(
                [
                    {},
                    {},
                    {},
                    {"state": draw.choice(list(VMState))},
                    {"drain_reason": "operator"},
                    {"last_polled": now(session) - timedelta(hours=1)},
                    {"retry_at": now(session) + timedelta(hours=1), "launch_failures": 2},
                    {"retry_at": now(session) - timedelta(hours=1), "launch_failures": 2},
                ]
            )
            if values:
                session.execute(update(VM).where(VM.id == vm.id).values(**values))


@pytest.mark.parametrize("seed", range(60))
def test_a_job_that_fits_by_explain_is_claimed_and_no_other(sqlite_db, seed):
    draw = random.Random(seed)
    build(sqlite_db, draw)
    shared = draw.random() < 0.3
    job_id = submit(
        sqlite_db,
        gpus=draw.randint(1, 2) if shared else draw.randint(0, 2),
        memory_mb=draw.choice([20_000, 60_000]) if shared else draw.choice([0, 60_000]),
        shared=shared,
    )
    said = explain(sqlite_db, job_id, SETTINGS)
    result = claims.claim(sqlite_db, claims.ClaimPolicy.of(SETTINGS, "d1"))
    fits = any(line.startswith("fits on") for line in said)
    assert fits == isinstance(result, Claimed), said


def test_a_machine_kept_free_for_a_large_job_is_said_to_be(sqlite_db):
    add_vm(sqlite_db, "vm", 2)
    submit(sqlite_db)
    claims.claim(sqlite_db, POLICY)
    large = submit(sqlite_db, gpus=2, priority=-1)
    claims.claim(sqlite_db, POLICY)
    with sqlite_db.write() as session:
        from questloop.fleet.models import Job

        moment = now(session) - timedelta(hours=1)
        session.execute(update(Job).where(Job.job_id == large).values(created_at=moment))
    small = submit(sqlite_db)
    assert any(f"kept free for the large job {large}" in line for line in explain(sqlite_db, small, SETTINGS))
    assert not isinstance(claims.claim(sqlite_db, claims.ClaimPolicy.of(SETTINGS, "d1")), Claimed)


@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("reason", list(FailureReason))
@pytest.mark.parametrize("retries", [0, 1])
def test_what_explain_says_of_retries_happens(sqlite_db, reason, errors, retries):
    add_vm(sqlite_db, "vm", 1)
    job_id = submit(sqlite_db, max_retries=retries, retry_errors=errors)
    attempts.finish(sqlite_db, claims.claim(sqlite_db, POLICY).attempt, Outcome(Ending.FAILED, reason, 1))
    said = " ".join(explain(sqlite_db, job_id, SETTINGS))
    promised = "retried 0 s after" in said
    assert promised != ("not retried" in said or "no retry left" in said)
    assert promised != jobs.is_final(jobs.get(sqlite_db, job_id))
    requeue.RequeueManager(sqlite_db, SETTINGS).scan()
    assert (jobs.get(sqlite_db, job_id).status == "queued") == promised
