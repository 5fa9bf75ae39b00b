"""Claims on SQLite and PostgreSQL, also many at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import event, select, text

from questloop.fleet import attempts, claims, jobs, machines, requeue
from questloop.fleet.attempts import Outcome
from questloop.fleet.claims import Claimed, Idle
from questloop.fleet.database import now
from questloop.fleet.models import Attempt, Claim, Slot
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
    assert [(event.before, event.after, event.reason, event.detail) for event in events] == [
        (None, "queued", None, None),
        ("queued", "pending", "no_free_slot", None),
        ("pending", "queued", "slot_free", None),
        ("queued", "running", None, "vm"),
    ]


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


def fail(db, reason, **values):
    """A job that ends so on the only machine."""
    job_id = submit(db, max_retries=0, **values)
    attempts.finish(db, claim(db).attempt, Outcome(Ending.FAILED, reason))
    return job_id


def test_a_machine_on_which_unlike_jobs_fail_is_set_aside(db):
    add_vm(db, "vm", 1)
    for script in ("a.py", "b.py", "c.py"):
        assert machines.get(db, "vm").drain_reason is None
        fail(db, FailureReason.CUDA_ERROR, arguments=["python", script])
    assert machines.get(db, "vm").drain_reason is DrainReason.FAILING
    machines.drain(db, "vm", off=True)
    fail(db, FailureReason.CUDA_ERROR, arguments=["python", "d.py"])
    assert machines.get(db, "vm").drain_reason is None, "what was forgiven does not count again"


def test_one_command_s_failures_are_one_word_against_a_machine(db):
    add_vm(db, "vm", 1)
    for rate in range(10):
        fail(db, FailureReason.CUDA_ERROR, arguments=["python", "train.py", f"--lr=0.{rate}"])
    assert machines.get(db, "vm").drain_reason is None
    assert machines.get(db, "vm").failures == 1


def test_a_job_that_completes_clears_its_machine(db):
    add_vm(db, "vm", 1)
    for number in range(6):
        fail(db, FailureReason.RUNNER_GONE, arguments=["python", f"{number}.py"])
        submit(db)
        attempts.finish(db, claim(db).attempt, Outcome(Ending.COMPLETED))
    assert machines.get(db, "vm").drain_reason is None


@pytest.mark.parametrize("reason", [item for item in FailureReason if not item.blames_machine])
def test_failures_that_are_the_jobs_own_set_no_machine_aside(sqlite_db, reason):
    add_vm(sqlite_db, "vm", 1)
    for number in range(10):
        fail(sqlite_db, reason, arguments=[f"pyhton{number}", "train.py"])
    assert machines.get(sqlite_db, "vm").drain_reason is None


def test_a_machine_that_cannot_launch_pauses_and_the_job_goes_elsewhere(db):
    first, second = add_vm(db, "first", 1), add_vm(db, "second", 1)
    job_id = submit(db)
    tried = claim(db)
    machines.pause(db, first)
    attempts.finish(db, tried.attempt, Outcome(Ending.LOST, FailureReason.LAUNCH_FAILED, counted=False))
    again = claim(db)
    with db.read() as session:
        assert session.get(Attempt, again.attempt).vm_id == second
    assert again.job_id == job_id
    attempts.mark_launched(db, again.attempt)
    waits = []
    for _ in range(3):
        before = machines.get(db, "first").retry_at
        machines.pause(db, first)
        waits.append(machines.get(db, "first").retry_at - before)
    assert waits[0] < waits[1] < waits[2]


@pytest.mark.parametrize("shared", [False, True])
def test_a_job_out_of_gpu_memory_goes_to_a_larger_gpu_once(db, shared):
    small = add_vm(db, "small", 1)
    large = add_vm(db, "wide", 0)
    poll(db, large, gpu(0, "wide", memory_mb=140_000))
    job_id = submit(db, shared=shared, memory_mb=30_000 if shared else 0)
    first = claim(db)
    assert machine_of(db, first) == small
    attempts.finish(db, first.attempt, Outcome(Ending.FAILED, FailureReason.OUT_OF_GPU_MEMORY, 77))
    if shared:
        assert jobs.get(db, job_id).memory_mb == 80_000, "a whole GPU of that size"
        return
    second = claim(db)
    assert (second.job_id, machine_of(db, second)) == (job_id, large)
    attempts.finish(db, second.attempt, Outcome(Ending.FAILED, FailureReason.OUT_OF_GPU_MEMORY, 77))
    job = jobs.get(db, job_id)
    assert jobs.is_final(job)
    assert "out of GPU memory also on a GPU of 140000 MB" in job.failure_detail
    assert (job.memory_before_mb, job.retry_count) == (0, 1)


def test_out_of_memory_on_the_largest_gpu_is_said_to_be_that(db):
    add_vm(db, "vm", 1)
    job_id = fail(db, FailureReason.OUT_OF_GPU_MEMORY)
    job = jobs.get(db, job_id)
    assert jobs.is_final(job)
    assert "the fleet has no larger one" in job.failure_detail


def test_several_gpus_are_never_slices_of_one(db):
    vm = add_vm(db, "vm", 0)
    slices = [replace(gpu(index), uuid=f"MIG-{index}") for index in range(2)]
    poll(db, vm, *slices)
    pair, single = submit(db, gpus=2), submit(db, gpus=1)
    assert claim(db).job_id == single
    assert isinstance(claim(db), Idle)
    poll(db, vm, *slices, gpu(2), gpu(3))
    got = claim(db)
    assert got.job_id == pair
    with db.read() as session:
        held = select(Slot.uuid).join(Claim).where(Claim.attempt_id == got.attempt)
        assert set(session.scalars(held)) == {"GPU-vm-2", "GPU-vm-3"}


def test_a_retry_goes_where_the_job_was(db):
    for number in range(3):
        add_vm(db, f"vm{number}", 1)
    blocked = [submit(db) for _ in range(2)]
    first = [claim(db) for _ in blocked]
    job_id = submit(db, max_retries=3)
    third = claim(db)
    home = machine_of(db, third)
    for other in first:
        attempts.finish(db, other.attempt, Outcome(Ending.COMPLETED))
    attempts.finish(db, third.attempt, Outcome(Ending.FAILED, FailureReason.PREEMPTED))
    requeue.retry_failed(db, requeue.Backoff(0, 0))
    again = claim(db)
    assert (again.job_id, machine_of(db, again)) == (job_id, home)


def machine_of(db, claimed):
    with db.read() as session:
        return session.get(Attempt, claimed.attempt).vm_id


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
