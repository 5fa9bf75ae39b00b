"""What goes with a job, and when it is tried again, without a cluster: the client here is a fake."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from ray.exceptions import AuthenticationError

from questloop.errors import UnavailableError, UsageError
from questloop.exit_codes import ExitCode
from questloop.pipeline import ray_jobs
from questloop.pipeline.ray_jobs import Cycle, EpochDriver, JobFailed, forwarded


class Status(SimpleNamespace):
    def is_terminal(self):
        return self.value in ("SUCCEEDED", "FAILED", "STOPPED")


class FakeClient:
    """Ends job number n as `endings[n]` says: an exit code, "STOPPED", or None for a job forgotten."""

    def __init__(self, endings, jobs=(), stores=()):
        self.endings, self.jobs, self.stores = list(endings), dict(jobs), dict(stores)
        self.submitted = []

    def list_jobs(self):
        return [
            SimpleNamespace(
                submission_id=name, status=status, runtime_env={"env_vars": self.stores.get(name, {})}
            )
            for name, status in self.jobs.items()
        ]

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
    def run(client, retries=2, environment=()):
        monkeypatch.setattr(ray_jobs, "connect", lambda address: client)
        driver = EpochDriver(
            "http://fake", retries=retries, tell=lambda line: None, environment=dict(environment)
        )
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


def test_what_was_unavailable_gets_time_before_the_next_try(drive, monkeypatch):
    waits = []
    monkeypatch.setattr(ray_jobs.time, "sleep", waits.append)
    drive(FakeClient([None, ExitCode.UNAVAILABLE, ExitCode.UNAVAILABLE, -9, 0]), retries=4)
    assert waits == [0, 2 * ray_jobs.UNAVAILABLE_S, 4 * ray_jobs.UNAVAILABLE_S, 0]


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
        "LLM_ENDPOINT": "https://me:word@host/v1",
    }
    assert forwarded(environment) == {"EPOCH_STEPS": "5", "STORE_URL": "s3://q"}


def test_a_cluster_that_is_not_there_is_named():
    with pytest.raises(UnavailableError, match=r"RAY_ADDRESS=http://127\.0\.0\.1:9"):
        ray_jobs.connect("http://127.0.0.1:9")


class Recovering(FakeClient):
    """Each kind of call fails at first, as a head does that was made anew a moment ago."""

    def __init__(self, error, failures=2):
        super().__init__([0])
        self.error = error
        self.left = dict.fromkeys(("list_jobs", "submit_job", "get_job_info", "get_job_logs"), failures)

    def _fail(self, name):
        if self.left[name]:
            self.left[name] -= 1
            raise self.error

    def list_jobs(self):
        self._fail("list_jobs")
        return super().list_jobs()

    def submit_job(self, **job):
        self._fail("submit_job")
        return super().submit_job(**job)

    def get_job_info(self, name):
        self._fail("get_job_info")
        return super().get_job_info(name)

    def get_job_logs(self, name):
        self._fail("get_job_logs")
        return super().get_job_logs(name)


HEAD_IS_NEW = [
    RuntimeError("Request failed with status code 429: Too Many Requests."),
    RuntimeError("Request failed with status code 500: No available agent to submit job, try again later"),
    ConnectionError("connection refused"),
]


@pytest.mark.parametrize("error", HEAD_IS_NEW, ids=["429", "no agent", "refused"])
def test_a_head_that_is_made_anew_is_waited_for_in_every_call(error, drive, monkeypatch):
    monkeypatch.setattr(ray_jobs, "POLL_S", 0.0)
    client = Recovering(error)
    (result,) = drive(client)
    assert result.attempts == 1
    assert set(client.left.values()) == {0}


@pytest.mark.parametrize("error", HEAD_IS_NEW, ids=["429", "no agent", "refused"])
def test_a_head_that_does_not_come_back_is_one_line(error, drive, monkeypatch):
    monkeypatch.setattr(ray_jobs, "POLL_S", 0.0)
    monkeypatch.setattr(ray_jobs, "PATIENCE_S", 0.05)
    with pytest.raises(UnavailableError, match="the same command takes the job up again"):
        drive(Recovering(error, failures=10**9))


def test_a_submission_whose_answer_was_lost_is_followed(drive):
    client = FakeClient([0])
    client.submit_job = lambda **_: (_ for _ in ()).throw(RuntimeError("500: submission_id already exists"))
    (result,) = drive(client)
    assert result.job == "zelda-train-epoch-3"


def test_a_refused_submission_is_one_line_at_once(drive):
    client = FakeClient([0])
    client.submit_job = lambda **_: (_ for _ in ()).throw(RuntimeError("failed with status code 400: no"))
    with pytest.raises(UnavailableError, match="the cluster refused it: failed with status code 400: no"):
        drive(client)


HEAD_REFUSES = [
    RuntimeError("Request failed with status code 403: <html>\n<body>Log in</body>"),
    AuthenticationError("the token\nis not valid"),
]


@pytest.mark.parametrize("error", HEAD_REFUSES, ids=["403", "token"])
@pytest.mark.parametrize("call", ["list_jobs", "submit_job", "get_job_info", "get_job_logs"])
def test_a_refusal_is_one_line_at_once_whatever_was_asked(call, error, drive):
    client = FakeClient([0])
    setattr(client, call, lambda *_, **__: (_ for _ in ()).throw(error))
    with pytest.raises(UnavailableError, match="zelda-train-epoch-3: the cluster refused it: ") as raised:
        drive(client)
    assert "\n" not in str(raised.value)
    assert len(client.submitted) <= 1


def test_a_job_that_somebody_stopped_says_so_without_an_exit_code(drive):
    with pytest.raises(JobFailed, match=r"^job zelda-train-epoch-3: stopped, why; its log: "):
        drive(FakeClient(["STOPPED"]))


def test_jobs_of_a_run_with_another_store_are_left_alone(drive):
    """Neither its success nor its running job is taken for ours, and its names are not taken."""
    others = {
        "zelda-train-epoch-3": Status(value="SUCCEEDED"),
        "zelda-train-epoch-3-2": Status(value="RUNNING"),
    }
    client = FakeClient([0], others, {name: {"STORE_URL": "s3://theirs"} for name in others})
    (result,) = drive(client, environment={"STORE_URL": "s3://ours"})
    assert (result.job, result.attempts) == ("zelda-train-epoch-3-3", 1)
    client = FakeClient([0], others, {"zelda-train-epoch-3": {"STORE_URL": "s3://ours"}})
    (result,) = drive(client, environment={"STORE_URL": "s3://ours"})
    assert (result.job, result.attempts) == ("zelda-train-epoch-3", 0)


@pytest.mark.parametrize(
    "address", ["auto", "ray://127.0.0.1:10001", "127.0.0.1:6379", "http://", "ftp://x", "nonsense"]
)
def test_an_address_that_is_no_url_of_a_dashboard_is_refused_at_once(address):
    with pytest.raises(UsageError, match="no http:// or https:// address; give the URL"):
        ray_jobs.connect(address)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, "<html>"),
        (200, "{}"),
        (200, "[]"),
        (200, '{"ray_version": 3}'),
        (404, ""),
        (401, "a\nb"),
        (502, ""),
    ],
)
def test_a_server_that_is_no_ray_is_one_line(status, body, answering):
    with pytest.raises(UnavailableError, match=r"RAY_ADDRESS=http://\S+: .+; give the URL") as raised:
        ray_jobs.connect(answering(status, body))
    assert "\n" not in str(raised.value)


def test_a_password_in_the_address_is_not_repeated():
    with pytest.raises(UnavailableError) as raised:
        ray_jobs.connect("http://me:word-of-mine@127.0.0.1:9")
    assert "word-of-mine" not in str(raised.value)


@pytest.fixture
def answering():
    """Start a web server that gives the same answer to everything; its URL."""
    servers = []

    def start(status, body):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
