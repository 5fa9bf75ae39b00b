"""Drives epochs by jobs on a Ray cluster: submits a stage, follows it, and retries it where that helps.

A job runs the same command as a user would, under the environment of the cluster's head. What a stage wrote
counts by its commit, so a job that was killed is run again, and a driver that was killed takes up the job
that it had submitted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from questloop import settings as settings_module
from questloop.errors import (
    BadDataError,
    MissingExtraError,
    QuestloopError,
    UnavailableError,
    UsageError,
)
from questloop.exit_codes import ExitCode
from questloop.redaction import shown
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store

if TYPE_CHECKING:
    from ray.job_submission import JobDetails, JobSubmissionClient

POLL_S = 2.0
PATIENCE_S = 180.0
"""How long a cluster may not answer: a head that is made again takes minutes."""
UNAVAILABLE_S = 45.0
"""The wait before a job is submitted again that could not reach what it needs, doubled each time. The last
writer of a store may outlive its head by a minute, as Ray looks for a lost head that long."""


_MISSING = "does not exist"
_EXISTS = "already exists"
_STATUS = re.compile(r"status code (\d{3})")
_LATER = (408, 425, 429)
"""statuses below 500 that say: not now"""
_STORE_NAMES = ("STORE_URL", "S3_ENDPOINT_URL", "S3_BUCKET_NAME")
"""settings that tell one run's jobs from another's on the same cluster"""
_Answer = TypeVar("_Answer")


class Cycle(StrEnum):
    """Half an epoch. A plays and learns; B judges what was played and learns the reward model."""

    A = "a"
    B = "b"


@dataclass(frozen=True)
class StageJob:
    """A stage as a job."""

    stage: Stage
    cycle: Cycle
    name: str
    """begins the submission id; `-epoch-N` follows"""
    entrypoint: str


STAGE_JOBS = (
    StageJob(Stage.ROLLOUTS, Cycle.A, "zelda-train", "python -m questloop rollouts"),
    StageJob(Stage.EVALUATE, Cycle.B, "zelda-eval", "python -m questloop evaluate"),
    StageJob(Stage.REWARD_MODEL, Cycle.B, "zelda-reward", "python -m questloop reward-model"),
)


class JobFailed(QuestloopError):
    """A job ended without success as often as it may."""


@dataclass(frozen=True)
class StageResult:
    """How a stage of an epoch came to be."""

    epoch: int
    stage: Stage
    job: str | None
    """submission id of the job that did it; None where its commit was there already"""
    attempts: int
    """jobs that this driver submitted"""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class EpochDriver:
    """Runs stages on the cluster behind `address`: its dashboard (http://...:8265), or a client of it."""

    def __init__(
        self,
        address: str | JobSubmissionClient,
        store: Store | None = None,
        retries: int = 2,
        tell: Callable[[str], None] = print,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`store`: the one that the jobs write, where it can be read from here; its commits are then believed
        more than the jobs. `tell` is given the jobs' log. Settings in `environment` go with the jobs.
        """
        self._client = connect(address) if isinstance(address, str) else address
        self._store = store
        self._retries = retries
        self._tell = tell
        self._environment = forwarded(environment)

    def run(self, epoch: int, cycles: tuple[Cycle, ...] = tuple(Cycle)) -> list[StageResult]:
        """The stages of `cycles`, one after the other; `JobFailed` where one fails for good."""
        return [self._stage(epoch, job) for job in STAGE_JOBS if job.cycle in cycles]

    def _stage(self, epoch: int, job: StageJob) -> StageResult:
        if self._is_committed(epoch, job.stage):
            return StageResult(epoch, job.stage, None, 0)
        known = _Attempts(self._client, f"{job.name}-epoch-{epoch}", self._environment)
        if self._store is None and known.latest_status == "SUCCEEDED":
            return StageResult(epoch, job.stage, known.latest, 0)
        submitted = 0
        name = known.latest if known.is_live else None
        while True:
            if name is None:
                name = self._submit(known.next(), job, epoch)
                submitted += 1
            details = self._follow(name)
            status = details.status.value if details else "LOST"
            if status == "SUCCEEDED":
                self._require_commit(epoch, job, name)
                return StageResult(epoch, job.stage, name, submitted)
            if not _may_succeed(details) or submitted > self._retries:
                raise JobFailed(_why(name, details))
            wait_s = _wait_s(details, submitted)
            self._tell(f"{name}: {status.lower()}, submitting it again{f' in {wait_s:.0f} s' * (wait_s > 0)}")
            time.sleep(wait_s)
            name = None

    def _submit(self, name: str, job: StageJob, epoch: int) -> str:
        variables = {**self._environment, "EPOCH": str(epoch)}
        try:
            _patiently(
                name,
                lambda: self._client.submit_job(
                    entrypoint=job.entrypoint,
                    submission_id=name,
                    runtime_env={"env_vars": variables},
                    metadata={"epoch": str(epoch), "stage": job.stage.value},
                ),
            )
        except RuntimeError as error:
            if _EXISTS not in str(error):  # it was taken, and its answer was lost
                raise
        self._tell(f"{name}: submitted")
        return name

    def _follow(self, name: str) -> JobDetails | None:
        """Pass on the job's log until it ends; None where the cluster has forgotten it."""
        seen = 0
        while True:
            try:
                details = _patiently(name, lambda: self._client.get_job_info(name))
                text = _patiently(name, lambda: self._client.get_job_logs(name))
            except RuntimeError as error:
                if _MISSING not in str(error):
                    raise
                return None
            for line in text[seen:].splitlines():
                self._tell(line)
            seen = len(text)
            if details.status.is_terminal():
                return details
            time.sleep(POLL_S)

    def _is_committed(self, epoch: int, stage: Stage) -> bool:
        return self._store is not None and read_commit(self._store, epoch, stage) is not None

    def _require_commit(self, epoch: int, job: StageJob, name: str) -> None:
        if self._store is not None and not self._is_committed(epoch, job.stage):
            raise BadDataError(
                f"job {name} succeeded, and {self._store.url} has no {job.stage} of epoch {epoch}: "
                "it wrote another store; set the same STORE_URL or S3_ENDPOINT_URL here and on the cluster"
            )


class _Attempts:
    """The jobs that were submitted for a stage of an epoch: `name`, `name-2`, `name-3` ...

    Those of another run, which writes another store, take numbers and are otherwise left alone.
    """

    def __init__(self, client: JobSubmissionClient, name: str, environment: Mapping[str, str]) -> None:
        self._name = name
        jobs = {job.submission_id: job for job in _patiently(name, client.list_jobs) if job.submission_id}
        self._count, self.latest, status = 0, None, None
        while (found := jobs.get(self._id(self._count + 1))) is not None:
            self._count += 1
            if _store_of(found) == _store_names(environment):
                self.latest, status = self._id(self._count), found.status
        self.latest_status = status.value if status else None
        self.is_live = status is not None and not status.is_terminal()

    def next(self) -> str:
        self._count += 1
        return self._id(self._count)

    def _id(self, number: int) -> str:
        return self._name if number == 1 else f"{self._name}-{number}"


def _store_names(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in _STORE_NAMES if name in environment}


def _store_of(job: JobDetails) -> dict[str, str]:
    return _store_names((job.runtime_env or {}).get("env_vars") or {})


def connect(address: str) -> JobSubmissionClient:
    """A client of the cluster's job server; `UnavailableError` where it does not answer."""
    try:
        import aiohttp  # noqa: F401  (the client needs it and says so badly)
        from ray.exceptions import RayError
        from ray.job_submission import JobSubmissionClient
    except ImportError:
        raise MissingExtraError("Ray's job client", "cluster") from None
    mend = (
        "give the URL of the cluster's dashboard, for example http://127.0.0.1:8265 after "
        "`oc port-forward svc/zelda-rl-head-svc 8265`"
    )
    if not re.match(r"https?://[^/]", address):  # the client would look for Ray in other ways, for minutes
        raise UsageError(f"RAY_ADDRESS={shown(address)}: no http:// or https:// address; {mend}")
    try:
        return JobSubmissionClient(address)
    except (ValueError, LookupError, TypeError):  # requests' error of an answer without JSON is the first
        said = "no Ray answers there"
    except (OSError, RuntimeError, RayError) as error:
        said = str(error).splitlines()[0].replace(address, shown(address))
    raise UnavailableError(f"RAY_ADDRESS={shown(address)}: {said}; {mend}")


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in `environment` that go with a job: a job's environment is shown on Ray's dashboard, so
    secrets never do, nor does an address with a password in it, and RAY_ADDRESS is the cluster's own.

    >>> forwarded({"EPOCH_STEPS": "4096", "S3_SECRET_KEY": "x", "RAY_ADDRESS": "y", "HOME": "/root"})
    {'EPOCH_STEPS': '4096'}
    """
    known = _forwardable()
    return {name: value for name, value in environment.items() if name in known and shown(value) == value}


def _forwardable() -> set[str]:
    names = {
        name
        for group in settings_module.GROUPS
        if group not in (settings_module.FleetSettings, settings_module.TelemetrySettings)
        for name in group.model_fields
    }
    return {name.upper() for name in names - settings_module.secret_names()} - {"RAY_ADDRESS", "EPOCH"}


def _may_succeed(details: JobDetails | None) -> bool:
    """Whether another try may help: not after wrong settings or data, nor where somebody stopped the job."""
    if details is None:
        return True
    if details.status.value == "STOPPED":
        return False
    try:
        return ExitCode(details.driver_exit_code).retryable
    except ValueError:  # killed by a signal, or its node is gone
        return True


def _wait_s(details: JobDetails | None, tries: int) -> float:
    """Seconds until the next try, after `tries` of them."""
    if details is None or details.driver_exit_code != ExitCode.UNAVAILABLE:
        return 0.0
    return UNAVAILABLE_S * 2 ** max(0, tries - 1)


def _why(name: str, details: JobDetails | None) -> str:
    if details is None:
        return f"job {name}: the cluster has lost it again and again; look at the head's memory"
    code, message = details.driver_exit_code, (details.message or "").strip().splitlines()
    return (
        f"job {name}: {details.status.value.lower()}{'' if code is None else f', exit code {code}'}"
        f"{f', {message[0]}' if message else ''}; its log: `ray job logs {name}`"
    )


def _patiently(name: str, call: Callable[[], _Answer]) -> _Answer:
    """The cluster's answer about a job, asked for again while there is none: a head may be made anew.

    Raises `RuntimeError` where it answers that there is no such job, or one already, and `UnavailableError`
    where it refuses.
    """
    from ray.exceptions import AuthenticationError

    began = time.monotonic()
    while True:
        try:
            return call()
        except (RuntimeError, OSError, AuthenticationError) as error:  # requests' errors are these too
            if any(text in str(error) for text in (_MISSING, _EXISTS)):
                raise
            if isinstance(error, AuthenticationError) or _is_refusal(error):
                raise UnavailableError(
                    f"job {name}: the cluster refused it: {' '.join(str(error).split())[:200]}"
                ) from None
            if time.monotonic() - began > PATIENCE_S:
                raise UnavailableError(
                    f"job {name}: the cluster has not answered for {PATIENCE_S:.0f} s "
                    f"({str(error).splitlines()[0]}); the same command takes the job up again"
                ) from None
        time.sleep(POLL_S)


def _is_refusal(error: Exception) -> bool:
    found = _STATUS.search(str(error))
    return found is not None and found[1].startswith("4") and int(found[1]) not in _LATER
