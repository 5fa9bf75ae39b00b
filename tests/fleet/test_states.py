"""The job state machine, checked against a model on both databases."""

import itertools

import pytest
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from questloop.exit_codes import ExitCode
from questloop.fleet import attempts, claims, jobs, requeue
from questloop.fleet.attempts import Outcome
from questloop.fleet.claims import Claimed
from questloop.fleet.states import (
    REASON_OF_EXIT_CODE,
    TRANSITIONS,
    Ending,
    FailureReason,
    JobStatus,
)
from questloop.settings import FleetSettings

from .conftest import empty
from .helpers import POLICY, add_vm, check_consistent, poll, submit

GPUS = 3


class JobMachine(RuleBasedStateMachine):
    """Random work on a small fleet; the model holds each job's status and the fences that were given out."""

    def __init__(self, db):
        super().__init__()
        self.db = db
        self.model: dict[str, JobStatus] = {}
        self.live: dict[int, str] = {}
        self.ended: list[int] = []
        self.highest = 0
        self.requeue = requeue.RequeueManager(
            db, FleetSettings(retry_backoff_s=0, pending_timeout_s=0.000001)
        )

    @initialize()
    def fleet(self):
        empty(self.db)
        self.vm = add_vm(self.db, "vm", GPUS, cpus=1)

    @rule(
        gpus=st.integers(0, GPUS),
        priority=st.integers(0, 2),
        retries=st.integers(0, 1),
        shared=st.booleans(),
        errors=st.booleans(),
    )
    def submit(self, gpus, priority, retries, shared, errors):
        share = {"shared": True, "memory_mb": 30_000} if shared and gpus else {}
        job_id = submit(
            self.db, gpus=gpus, priority=priority, max_retries=retries, retry_errors=errors, **share
        )
        self.model[job_id] = JobStatus.QUEUED

    @rule()
    def claim(self):
        result = claims.claim(self.db, POLICY)
        if isinstance(result, Claimed):
            assert self.model[result.job_id] in (JobStatus.QUEUED, JobStatus.PENDING)
            assert result.attempt > self.highest, "a fence is higher than all before it"
            self.highest = result.attempt
            self.live[result.attempt] = result.job_id
            self.model[result.job_id] = JobStatus.RUNNING
            # Jobs ranked higher that nothing was free for were parked on the way.
            for job in jobs.find(self.db, JobStatus.PENDING):
                if self.model[job.job_id] is JobStatus.QUEUED:
                    self.model[job.job_id] = JobStatus.PENDING
            return
        assert not result.contended
        for job_id, status in self.model.items():
            if status is JobStatus.QUEUED:
                self.model[job_id] = JobStatus.PENDING

    @rule(data=st.data(), ending=st.sampled_from(Ending), reason=st.sampled_from(FailureReason))
    def finish(self, data, ending, reason):
        assume(self.live)
        attempt = data.draw(st.sampled_from(sorted(self.live)))
        job_id = self.live[attempt]
        wanted_cancel = jobs.get(self.db, job_id).cancel_requested_at is not None
        assert attempts.finish(self.db, attempt, Outcome(ending, reason), set_aside_after=10**6)
        if wanted_cancel and ending is not Ending.COMPLETED:
            ending = Ending.CANCELLED
        self.model[job_id] = JobStatus(ending.value)
        if ending is Ending.FAILED and reason is FailureReason.OUT_OF_GPU_MEMORY:
            now = jobs.get(self.db, job_id)
            if now.memory_before_mb is not None and now.status is JobStatus.QUEUED:
                assert now.shared, "only a share of these GPUs can become larger"
                self.model[job_id] = JobStatus.QUEUED
        self.ended.append(attempt)
        del self.live[attempt]

    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def finish_again(self, data, ending):
        assume(self.ended)
        attempt = data.draw(st.sampled_from(self.ended))
        assert not attempts.finish(self.db, attempt, Outcome(ending))

    @rule(data=st.data())
    def cancel(self, data):
        assume(self.model)
        job_id = data.draw(st.sampled_from(sorted(self.model)))
        before = jobs.get(self.db, job_id)
        result = jobs.cancel(self.db, job_id)
        if before.status is JobStatus.RUNNING or jobs.is_final(before):
            assert result is before.status
        else:
            assert result is JobStatus.CANCELLED
            self.model[job_id] = JobStatus.CANCELLED

    @rule()
    def scan(self):
        requeued = (JobStatus.FAILED, JobStatus.LOST, JobStatus.PENDING)
        before = {job_id: jobs.get(self.db, job_id) for job_id, at in self.model.items() if at in requeued}
        self.requeue.scan()
        for job_id, job in before.items():
            if job.status is JobStatus.LOST:
                left = job.retry_count < job.max_retries
                self.model[job_id] = JobStatus.QUEUED if left else JobStatus.FAILED
            elif job.status is JobStatus.PENDING or not jobs.is_final(job):
                self.model[job_id] = JobStatus.QUEUED

    @rule()
    def poll_between(self):
        poll(self.db, self.vm, *self._slots())

    def _slots(self):
        from .helpers import cpu, gpu

        return [*(gpu(index) for index in range(GPUS)), cpu()]

    @invariant()
    def model_holds(self):
        assert {job.job_id: job.status for job in jobs.find(self.db)} == self.model

    @invariant()
    def database_holds(self):
        check_consistent(self.db)

    def teardown(self):
        """The audit tells every job's story without a gap, by legal changes only."""
        for job_id, status in self.model.items():
            events, _ = jobs.history(self.db, job_id)
            assert events[0].before is None
            assert events[-1].after == status.value
            for earlier, later in itertools.pairwise(events):
                assert later.before == earlier.after
                assert later.after in TRANSITIONS[JobStatus(later.before)]


def test_the_state_machine_holds_on_both_databases(db):
    run(db, examples=8)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_state_machine_holds_for_long(db):
    run(db, examples=300)


def run(db, examples):
    run_state_machine_as_test(
        lambda: JobMachine(db),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
        ),
    )


def test_final_states_are_final():
    assert not TRANSITIONS[JobStatus.COMPLETED]
    assert not TRANSITIONS[JobStatus.CANCELLED]


def test_every_status_is_reachable_and_has_a_row():
    assert set(TRANSITIONS) == set(JobStatus)
    reached = {JobStatus.QUEUED}
    for _ in JobStatus:
        reached |= {after for before in reached for after in TRANSITIONS[before]}
    assert reached == set(JobStatus)


@pytest.mark.parametrize("code", [code for code in ExitCode if code in REASON_OF_EXIT_CODE])
def test_reasons_retry_where_exit_codes_do(code):
    reason = REASON_OF_EXIT_CODE[code]
    assert (reason.retryable or reason.retried_if_asked) == code.retryable
