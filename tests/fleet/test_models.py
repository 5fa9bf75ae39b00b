"""What a fleet's database is told by people, machines and messages: both take it alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from questloop.errors import QuestloopError, UsageError
from questloop.fleet import attempts, claims, explain, jobs, machines, nvidia_smi
from questloop.fleet.attempts import Outcome
from questloop.fleet.jobs import UnknownJobError
from questloop.fleet.machines import UnknownMachineError
from questloop.fleet.models import VM
from questloop.fleet.states import Ending, FailureReason, JobStatus
from questloop.settings import FleetSettings

from .conftest import empty
from .helpers import POLICY, add_vm, poll, submit
from .test_nvidia_smi import FIRST, RECORDED

ODD = ["a\0b", "\0", "half a pair: \ud800", "x" * 10_000]


@pytest.mark.parametrize("odd", ODD)
def test_a_name_that_nothing_can_have_is_unknown(db, odd):
    for ask in (jobs.get, jobs.cancel, jobs.retry):
        with pytest.raises(UnknownJobError):
            ask(db, odd)
    assert jobs.history(db, odd) == ([], [])
    with pytest.raises(UnknownJobError):
        explain.explain(db, odd, FleetSettings())
    for look in (machines.get, machines.drain, machines.remove):
        with pytest.raises(UnknownMachineError):
            look(db, odd)


@pytest.mark.parametrize("odd", ODD)
def test_nothing_is_made_by_such_a_name(db, odd):
    with pytest.raises(UsageError):
        submit(db, job_id=odd)
    with pytest.raises(UsageError):
        machines.add(db, odd, "127.0.0.1")


def test_a_text_that_would_be_stored_otherwise_is_refused(db):
    for odd in ODD[:-1]:
        with pytest.raises(UsageError, match="cannot be stored"):
            submit(db, model=odd)


def test_what_is_too_long_for_a_column_is_one_line(db):
    add_vm(db, "vm", 1)
    said = ""
    try:
        with db.write() as session:
            session.execute(update(VM).values(boot_id="x" * 100, failures=2**40))
    except QuestloopError as error:
        said = str(error)
    assert db.is_sqlite or said.startswith("database: ")  # SQLite takes both
    assert "\n" not in said


@pytest.mark.parametrize("odd", ODD)
def test_a_job_ends_whatever_its_last_words_were(db, odd):
    vm_id = add_vm(db, "vm", 1)
    job_id = submit(db)
    attempt = claims.claim(db, POLICY).attempt
    assert attempts.finish(db, attempt, Outcome(Ending.FAILED, FailureReason.ERROR, 1, detail=odd))
    job = jobs.get(db, job_id)
    assert (job.status, len(job.failure_detail)) == (JobStatus.FAILED, len(odd))
    machines.mark_unreachable(db, vm_id, odd)
    assert len(machines.get(db, "vm").state_detail) == len(odd)


SLICES = f"GPU 0: NVIDIA H100 (UUID: {FIRST})\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n"
PIECES = ["\0", "\ud800", "9" * 12, "x" * 200, ", ", "\n", "GPU-", FIRST, "[N/A]", "²", RECORDED, SLICES]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_a_driver_prints_can_be_written_down(shared_database, data):
    db = shared_database
    empty(db)
    vm_id = add_vm(db, "vm", 0)
    add_vm(db, "other", 1)

    def printed(text: str) -> dict[str, object]:
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(text)))
            skipped = data.draw(st.integers(0, 40))
            text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + skipped :]
        return {"exit_code": 0, "output": text}

    answers = {
        "gpus": printed(RECORDED.replace("Disabled", data.draw(st.sampled_from(["Disabled", "Enabled"])))),
        "apps": printed(f"{FIRST}, 1, 900, other\n"),
        "list": printed(SLICES),
    }
    driver = nvidia_smi.read(answers, [])
    for _ in range(2):
        poll(db, vm_id, *(driver.slots or ()), detail=driver.detail)
    assert {slot.uuid for slot in machines.get(db, "vm").slots} == {slot.uuid for slot in driver.slots or ()}
    assert machines.get(db, "other").total_gpus == 1
