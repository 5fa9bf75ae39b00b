"""What goes with a job, and when it is tried again, without a cluster: the client here is a fake."""

from types import SimpleNamespace

import pytest

from questloop.errors import UnavailableError
from questloop.exit_codes import ExitCode
from questloop.pipeline import ray_jobs
from questloop.pipeline.ray_jobs import Cycle, EpochDriver, JobFailed, forwarded


class Status(SimpleNamespace):
    def is_terminal(self):
        return self.value in ("SUCCEEDED", "FAILED", "STOPPED")


class FakeClient:
    """Ends job number n as `endings[n]` says: an exit code, "STOPPED", or None for a job forgotten."""

    def __init__(self, endings, jobs=()):
        self.endings, self.jobs = list(endings), dict(jobs)
        self.submitted = []

    def list_jobs(self):
        return [SimpleNamespace(submission_id=name, status=status) for name, status in self.jobs.items()]

    def submit_job(self, *, submission_id, runtime_env, **_):
        self.submitted.append((submission_id, runtime_env["env_vars"]))

    def get_job_logs(self, name):
        return f"log of {name}\n"

    def get_job_info(self, name):
        ending = self.endings.pop(0)
        if ending is None:
            raise RuntimeError(f"Job {name} does not exist")
        status = "STOPPED" if ending == "STOPPED" else "FAILED" if ending else "SUCCEEDED"
        code = None if ending == "STOPPED" else ending
        return SimpleNamespace(status=Status(value=status), driver_exit_code=code, message="why")


@pytest.fixture
def drive(monkeypatch):
    def run(client, retries=2):
        monkeypatch.setattr(ray_jobs, "connect", lambda address: client)
        driver = EpochDriver("http://fake", retries=retries, tell=lambda line: None, environment={})
        return driver.run(3, (Cycle.A,))

    return run


def test_what_may_succeed_is_tried_again_under_another_name(drive):
    client = FakeClient([ExitCode.PREEMPTED, None, -9, 0])
    (result,) = drive(client, retries=3)
    assert [name for name, _ in client.submitted] == [
        *("zelda-train-epoch-3", "zelda-train-epoch-3-2", "zelda-train-epoch-3-3", "zelda-train-epoch-3-4")
    ]
    assert result.job == "zelda-train-epoch-3-4"
    assert client.submitted[0][1] == {"EPOCH": "3"}


@pytest.mark.parametrize("ending", [ExitCode.USAGE, ExitCode.BAD_DATA, "STOPPED"])
def test_what_cannot_succeed_is_not_tried_again(drive, ending):
    client = FakeClient([ending, 0])
    with pytest.raises(JobFailed, match="zelda-train-epoch-3: "):
        drive(client)
    assert len(client.submitted) == 1


def test_retries_are_counted(drive):
    client = FakeClient([ExitCode.FAILED] * 9)
    with pytest.raises(JobFailed, match="exit code 1"):
        drive(client, retries=2)
    assert len(client.submitted) == 3


def test_a_running_job_is_taken_up(drive):
    client = FakeClient([0], {"zelda-train-epoch-3": Status(value="RUNNING")})
    (result,) = drive(client)
    assert (result.job, result.attempts) == ("zelda-train-epoch-3", 0)


def test_a_failed_job_of_an_earlier_driver_is_run_again(drive):
    client = FakeClient([0], {"zelda-train-epoch-3": Status(value="FAILED")})
    (result,) = drive(client)
    assert (result.job, result.attempts) == ("zelda-train-epoch-3-2", 1)


def test_secrets_and_the_address_stay_here():
    environment = {
        "EPOCH_STEPS": "5",
        "STORE_URL": "s3://q",
        "EPOCH": "1",
        "RAY_ADDRESS": "http://x",
        "PATH": "/",
        "S3_SECRET_KEY": "x",
        "S3_ACCESS_KEY": "x",
        "LLM_API_KEY": "x",
        "DATABASE_URL": "x",
    }
    assert forwarded(environment) == {"EPOCH_STEPS": "5", "STORE_URL": "s3://q"}


def test_a_cluster_that_is_not_there_is_named():
    with pytest.raises(UnavailableError, match=r"RAY_ADDRESS=http://127\.0\.0\.1:9"):
        ray_jobs.connect("http://127.0.0.1:9")
