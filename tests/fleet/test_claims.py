"""Claims on SQLite and PostgreSQL, also many at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import event, select, text

from questloop.fleet import attempts, claims, jobs, machines
from questloop.fleet.attempts import Outcome
from questloop.fleet.claims import Claimed, Idle
from questloop.fleet.database import now
from questloop.fleet.models import Claim, Slot
from questloop.fleet.states import DrainReason, Ending, FailureReason, Health
from questloop.settings import Placement

from .helpers import POLICY, add_vm, check_consistent, gpu, poll, status, submit


def claim(db, **values):
    return claims.claim(db, replace(POLICY, **values))


def claim_until(db, owner):
    """What one dispatcher gets until nothing is left."""
    got = []
    while True:
        result = claim(db, owner=owner)
        if isinstance(result, Claimed):
            got.append(result)
        elif not result.contended:
            return got


def test_eight_claims_at_once_for_two_gpus(db):
    vm = add_vm(db, "vm", 2)
    for _ in range(8):
        submit(db)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: claim_until(db, f"d{number}"), range(8)))
    assert sum(map(len, results)) == 2
    assert machines.get(db, "vm").available_gpus == 0
    check_consistent(db)
    with db.read() as session:
        assert len(session.scalars(select(Claim.slot_id)).all()) == 2
        assert session.get(Slot, 0) is None
    assert vm


def test_many_dispatchers_place_every_job_once(db):
    for number in range(4):
        add_vm(db, f"vm{number}", 4)
    submitted = {submit(db, gpus=1 + number % 2) for number in range(8)}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda number: claim_until(db, f"d{number}"), range(4)))
    placed = [result.job_id for got in results for result in got]
    assert sorted(placed) == sorted(submitted)
    assert len({result.attempt for got in results for result in got}) == 8
    check_consistent(db)


def test_a_job_that_another_process_holds_is_left_to_it(db, monkeypatch):
    """It was passed over, so there may be room for it; parked, it would be hidden from its holder."""
    if db.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    add_vm(db, "vm", 1)
    held, large = submit(db), submit(db, gpus=2)
    holder = db.engine.connect()
    holder.execute(text("SELECT 1 FROM jobs WHERE job_id = :held FOR UPDATE"), {"held": held})
    real = claims._park

    def park(*arguments):
        holder.rollback()  # it could not take the job, and is about to look again
        return real(*arguments)

    monkeypatch.setattr(claims, "_park", park)
    assert claim(db) == Idle(parked=1)
    holder.close()
    assert (status(db, held), status(db, large)) == ("queued", "pending")


def test_priority_then_age(db):
    add_vm(db, "vm", 3)
    low = submit(db)
    first = submit(db, priority=5)
    time.sleep(0.002)  # SQLite's clock counts milliseconds; of the same age, the id decides
    second = submit(db, priority=5)
    assert [claim(db).job_id for _ in range(3)] == [first, second, low]


def test_what_fits_nowhere_is_pending_and_smaller_jobs_go_on(db):
    add_vm(db, "a", 1)
    add_vm(db, "b", 1)
    big, small = submit(db, gpus=2, priority=9), submit(db)
    assert claim(db).job_id == small
    assert claim(db) == Idle(parked=1)
    assert status(db, big) == "pending"


def test_a_pending_job_is_claimed_once_a_slot_is_free(db):
    add_vm(db, "vm", 1)
    submit(db)
    running = claim(db)
    waiting = submit(db)
    assert claim(db) == Idle(parked=1)
    assert status(db, waiting) == "pending"
    attempts.finish(db, running.attempt, Outcome(Ending.COMPLETED))
    assert claim(db).job_id == waiting
    events, _ = jobs.history(db, waiting)
    assert [event.after for event in events] == ["queued", "pending", "queued", "running"]


def test_cpu_slots_take_only_jobs_without_gpus_and_are_no_gpus(db):
    add_vm(db, "vm", 0, cpus=1)
    on_gpu, on_cpu = submit(db, gpus=1), submit(db, gpus=0)
    assert claim(db).job_id == on_cpu
    assert claim(db) == Idle(parked=1)
    assert status(db, on_gpu) == "pending"
    assert machines.get(db, "vm").total_gpus == 0


@pytest.mark.parametrize(("policy", "expected"), [(Placement.PACK, "small"), (Placement.SPREAD, "large")])
def test_pack_and_spread(db, policy, expected):
    add_vm(db, "large", 4)
    add_vm(db, "small", 2)
    submit(db)
    attempt = attempts.load(db, claim(db, placement=policy).attempt)
    assert attempt.vm.name == expected


def test_memory_is_shared_only_when_declared(db):
    add_vm(db, "vm", 1)
    for _ in range(3):
        submit(db, shared=True, memory_mb=30_000)
    first, second = claim(db), claim(db)
    assert isinstance(claim(db), Idle)  # 90,000 of 80,000 MB
    floors = {attempts.load(db, got.attempt).slots[0].floor for got in (first, second)}
    assert floors == {first.attempt}
    attempts.finish(db, first.attempt, Outcome(Ending.COMPLETED))
    assert isinstance(claim(db), Claimed)
    check_consistent(db)


def test_an_exclusive_job_wants_an_empty_gpu_with_enough_memory(db):
    vm = add_vm(db, "vm", 0)
    poll(db, vm, gpu(0, memory_mb=24_000))
    submit(db, memory_mb=40_000)
    assert isinstance(claim(db), Idle)
    poll(db, vm, gpu(0, memory_mb=24_000), gpu(1, memory_mb=48_000))
    got = attempts.load(db, claim(db).attempt)
    assert [slot.uuid for slot in got.slots] == ["GPU-vm-1"]


@pytest.mark.parametrize(
    "reading",
    [
        gpu(0, health=Health.UNHEALTHY),
        gpu(0, health=Health.UNKNOWN),
        gpu(0, foreign_processes=True),
        gpu(0, memory_used_mb=5_000),
    ],
)
def test_only_a_healthy_unused_gpu_is_free(db, reading):
    vm = add_vm(db, "vm", 0)
    poll(db, vm, reading)
    submit(db)
    assert isinstance(claim(db), Idle)
    assert machines.get(db, "vm").available_gpus == 0


def test_a_poll_between_claim_and_launch_keeps_the_claim(db):
    vm = add_vm(db, "vm", 1)
    with db.read() as session:
        before = now(session)
    submit(db)
    claim(db)
    poll(db, vm, gpu(0), since=before)
    submit(db)
    assert isinstance(claim(db), Idle)
    assert machines.get(db, "vm").available_gpus == 0
    check_consistent(db)


def test_a_poll_that_began_before_a_release_does_not_mark_the_memory_of_the_job_as_foreign(db):
    vm = add_vm(db, "vm", 1)
    submit(db)
    running = claim(db)
    with db.read() as session:
        before = now(session)
    attempts.finish(db, running.attempt, Outcome(Ending.COMPLETED))
    poll(db, vm, gpu(0, memory_used_mb=70_000), since=before)
    assert machines.get(db, "vm").available_gpus == 1


def test_drained_stale_and_unreachable_machines_take_nothing(db):
    vm = add_vm(db, "vm", 1)
    submit(db)
    machines.drain(db, "vm")
    assert isinstance(claim(db), Idle)
    machines.drain(db, "vm", off=True)
    assert isinstance(claim(db, stale_poll_s=0), Idle)
    machines.mark_unreachable(db, vm, "cut")
    assert isinstance(claim(db), Idle)
    poll(db, vm, gpu(0))
    assert isinstance(claim(db), Claimed)


def test_a_fallen_gpu_count_drains_until_an_operator_accepts_it(db):
    vm = add_vm(db, "vm", 4)
    poll(db, vm, *(gpu(index) for index in range(3)))
    assert machines.get(db, "vm").drain_reason is DrainReason.GPU_COUNT_FELL
    assert machines.get(db, "vm").total_gpus == 4
    machines.drain(db, "vm", off=True)
    assert machines.get(db, "vm").total_gpus == 3
    poll(db, vm, *(gpu(index) for index in range(3)))
    assert machines.get(db, "vm").drain_reason is None


def test_a_silent_driver_is_not_a_machine_without_gpus(db):
    vm = add_vm(db, "vm", 2)
    poll(db, vm, slots=None, detail="driver failure")
    after = machines.get(db, "vm")
    assert (after.total_gpus, after.available_gpus, after.drain_reason) == (2, 0, None)


def test_a_machine_that_fails_job_after_job_is_set_aside(db):
    add_vm(db, "vm", 1)
    for _ in range(3):
        submit(db)
        attempts.finish(db, claim(db).attempt, Outcome(Ending.FAILED, FailureReason.CUDA_ERROR))
    assert machines.get(db, "vm").drain_reason is DrainReason.FAILING


def test_failures_that_are_the_jobs_own_set_no_machine_aside(db):
    add_vm(db, "vm", 1)
    for _ in range(5):
        submit(db)
        attempts.finish(db, claim(db).attempt, Outcome(Ending.FAILED, FailureReason.ERROR))
    assert machines.get(db, "vm").drain_reason is None


def test_a_large_job_that_waits_too_long_gets_a_machine_kept_free(db):
    add_vm(db, "a", 2)
    submit(db)
    small = claim(db)
    large = submit(db, gpus=2)
    claim(db)
    other = submit(db)
    assert isinstance(claim(db, starving_s=0), Idle), "the free GPU is kept for the large job"
    attempts.finish(db, small.attempt, Outcome(Ending.COMPLETED))
    assert claim(db, starving_s=0).job_id == large
    assert status(db, other) == "pending"


def test_inserting_rows_is_enough(db):
    vm = add_vm(db, "vm", 1)
    with db.write() as session:
        session.execute(text("INSERT INTO jobs (job_id, model) VALUES ('by-hand', 'tiny')"))
        session.execute(text("INSERT INTO vms (name, ip_address) VALUES ('bare', '192.0.2.1')"))
    assert claim(db).job_id == "by-hand"
    assert machines.get(db, "bare").state == "needs_host_key"
    assert vm


def test_slots_are_taken_all_or_none(db, monkeypatch):
    add_vm(db, "vm", 2)
    with db.read() as session:
        before = claims.open_slots(session, stale_poll_s=86400)
    submit(db)
    assert isinstance(claim(db), Claimed)
    late = submit(db, gpus=2)
    monkeypatch.setattr(claims, "open_slots", lambda *_, **__: before)  # as read before the first claim
    assert claim(db) == Idle(contended=True)
    assert status(db, late) == "queued"
    assert machines.get(db, "vm").available_gpus == 1
    check_consistent(db)


def test_a_claim_takes_few_statements(db):
    add_vm(db, "vm", 8)
    submit(db, gpus=4)
    statements = []

    def note(connection, cursor, statement, *_):
        if not statement.startswith("BEGIN"):
            statements.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        assert isinstance(claim(db), Claimed)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    assert len(statements) <= (10 if db.is_sqlite else 5), statements


def test_the_queue_is_read_by_its_indexes(postgres_url):
    from questloop.fleet.database import Database

    from .conftest import empty

    db = Database(postgres_url)
    db.migrate()
    empty(db)
    with db.write() as session:
        session.execute(
            text(
                "INSERT INTO jobs (job_id, priority, gpus, status) "
                "SELECT 'j' || n, n % 7, 1 + n % 4, CASE n % 2 WHEN 0 THEN 'queued' ELSE 'pending' END "
                "FROM generate_series(1, 5000) n"
            )
        )
        session.execute(text("ANALYZE jobs"))
        waiting = claims.waiting_query((), 8, False)
        starving = claims.moment_and_starving_query().params(starving_s=1.0)
        plans = [
            "\n".join(session.scalars(text(f"EXPLAIN {_literal(query, db)}")))
            for query in (waiting, starving)
        ]
    assert "ix_jobs_waiting" in plans[0] or "ix_jobs_queued" in plans[0]
    assert "ix_jobs_large" in plans[1]
    assert not any("Sort" in plan for plan in plans)
    db.dispose()


def _literal(query, db):
    return query.compile(db.engine, compile_kwargs={"literal_binds": True})
