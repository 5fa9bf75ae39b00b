"""Jobs: submitting, cancelling, retrying, and every change of a job's status."""

from __future__ import annotations

import secrets
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from sqlalchemy import Select, insert, select, update
from sqlalchemy.orm import Session

from questloop.errors import UsageError, message_of
from questloop.fleet import environment
from questloop.fleet.commands import BadJobError, command_of, valid_job_id
from questloop.fleet.database import Database, now
from questloop.fleet.models import Attempt, Job, JobEvent, storable
from questloop.fleet.states import TRANSITIONS, JobKind, JobStatus
from questloop.grpo.rewards import BUILTIN_REWARDS
from questloop.storage.store import folder_path

_jobs, _events = (Job.metadata.tables[name] for name in (Job.__tablename__, JobEvent.__tablename__))


WITHOUT_ROW = (
    "the database is the queue, a message only wakes a dispatcher: insert a row into jobs first "
    "(job_id, model, dataset, reward_function), or use `questloop fleet submit`"
)


class UnknownJobError(UsageError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"no job {job_id!r}: `questloop fleet jobs` lists them; if the id was published, {WITHOUT_ROW}"
        )


class JobRequest(BaseModel):
    """A job as a user asks for it: by flags, YAML or from Python."""

    model_config = ConfigDict(extra="forbid")

    job_id: str = Field(default_factory=lambda: new_job_id())
    kind: JobKind = JobKind.GRPO
    model: str | None = None
    dataset: str | None = None
    reward_function: str | None = None
    arguments: dict[str, Any] | list[str] = Field(default_factory=dict)
    inputs: dict[str, str] = Field(default_factory=dict, description="file name in the job's folder: source")
    environment: dict[str, str] = Field(
        default_factory=dict, description="variable: value, env:NAME or file:NAME of the dispatcher"
    )
    output_url: str | None = None
    priority: int = Field(0, ge=-1000, le=1000)
    gpus: int = Field(1, ge=0, le=64)
    memory_mb: int = Field(0, ge=0, le=2**31 - 1)
    shared: bool = False
    max_retries: int = Field(3, ge=0, le=1000)
    retry_errors: bool = Field(False, description="retry also where the job's own program failed")

    @field_validator("job_id")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not valid_job_id(value):
            raise ValueError(
                "use letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit"
            )
        return value

    @field_validator("model", "dataset", "reward_function", "output_url")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        if value is not None and storable(value) != value:
            raise ValueError("a NUL or half a character cannot be stored")
        return value

    @field_validator("reward_function")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        for name in (value or "").replace(",", " ").split():
            if ":" not in name and name not in BUILTIN_REWARDS:
                raise ValueError(
                    f"no built-in reward {name!r}: choose from {', '.join(BUILTIN_REWARDS)}, or give one of "
                    "your own as module:function"
                )
        return value

    @field_validator("output_url")
    @classmethod
    def _store(cls, value: str | None) -> str | None:
        if value and not value.startswith("s3://"):
            try:
                folder_path(value)
            except UsageError:
                raise ValueError("give a path, file:///path or s3://bucket/prefix") from None
        return value

    @field_validator("environment")
    @classmethod
    def _usable(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            environment.check(value)
        except environment.BadEnvironmentError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        if self.kind is JobKind.COMMAND:
            if not isinstance(self.arguments, list) or not self.arguments or not self.arguments[0]:
                raise ValueError("nothing to run: a command job needs a program and its arguments, after --")
            if not all(isinstance(item, str) for item in self.arguments):
                raise ValueError("arguments: a command job needs a list of texts, the program first")
            return self
        needed = ("model", "dataset") + (("reward_function",) if self.kind is JobKind.GRPO else ())
        missing = [name for name in needed if not getattr(self, name)]
        if isinstance(self.arguments, list):
            raise ValueError("arguments: only a command job has a list; write options by name")
        if missing and "config" not in self.arguments:
            raise ValueError(
                f"nothing to run: a {self.kind} job needs {', '.join(missing)} (or a config file in "
                "arguments); a program of your own goes after --"
            )
        return self

    @model_validator(mode="after")
    def _passable(self) -> Self:
        """What a dispatcher would refuse at the launch is refused here."""
        try:
            command_of(Job(**self.model_dump()))
        except BadJobError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.shared and not (self.gpus and self.memory_mb):
            raise ValueError("shared needs gpus and memory_mb: what is not declared cannot be shared")
        return self


def new_job_id() -> str:
    """A fresh, readable id."""
    return f"job-{secrets.token_hex(5)}"


def parse_request(values: dict[str, Any]) -> JobRequest:
    """A request from plain values; raises `UsageError` naming the field."""
    try:
        return JobRequest.model_validate(values)
    except ValidationError as error:
        raise UsageError("; ".join(dict.fromkeys(_problem(item) for item in error.errors()))) from None


def _problem(item: Any) -> str:
    field = ".".join(map(str, item["loc"])) or "job"
    message = message_of(item)
    if item["type"] == "extra_forbidden":
        return f"{field}: no such field; there are {', '.join(JobRequest.model_fields)}"
    if item["loc"][:1] == ("arguments",):
        return (
            "arguments: a mapping from options to values, or of a command job a list of texts (write 1, true "
            "and dates in quotes)"
        )
    return message if message.startswith(field) else f"{field}: {message}"


def submit(db: Database, request: JobRequest) -> str:
    """Queue a job and return its id."""
    with db.write() as session:
        if session.get(Job, request.job_id) is not None:
            raise UsageError(f"job {request.job_id!r} exists: choose another --job-id")
        session.add(Job(**request.model_dump()))
        _record(session, request.job_id, None, JobStatus.QUEUED)
    return request.job_id


def cancel(db: Database, job_id: str) -> JobStatus:
    """Cancel a job and return its status now.

    A running one becomes `cancelled` when its whole process group is gone. What has ended stays as it is.
    """
    with db.write() as session:
        job = session.get(Job, job_id, with_for_update=True)
        if job is None:
            raise UnknownJobError(job_id)
        if job.status is JobStatus.RUNNING:
            moment = job.cancel_requested_at or now(session)
            session.execute(update(Job).where(Job.job_id == job_id).values(cancel_requested_at=moment))
            return JobStatus.RUNNING
        status = job.status
        if status is JobStatus.LOST or (status is JobStatus.FAILED and not is_final(job)):
            move(session, job_id, status, JobStatus.QUEUED, reason="cancel")
            status = JobStatus.QUEUED
        if status in (JobStatus.QUEUED, JobStatus.PENDING):
            move(session, job_id, status, JobStatus.CANCELLED, reason="cancel", finished_at=now(session))
            status = JobStatus.CANCELLED
        return status


def retry(db: Database, job_id: str) -> None:
    """Queue a failed job again with all its retries."""
    with db.write() as session:
        job = session.get(Job, job_id, with_for_update=True)
        if job is None:
            raise UnknownJobError(job_id)
        if job.status is not JobStatus.FAILED:
            raise UsageError(f"job {job_id!r} is {job.status}; only a failed job is retried: submit it again")
        move(session, job_id, JobStatus.FAILED, JobStatus.QUEUED, reason="retry", retry_count=0)


def get(db: Database, job_id: str) -> Job:
    """The job; raises `UnknownJobError`."""
    with db.read() as session:
        job = session.get(Job, job_id)
    if job is None:
        raise UnknownJobError(job_id)
    return job


def find(db: Database, status: JobStatus | None = None, limit: int = 100) -> list[Job]:
    """The newest jobs."""
    query = select(Job).order_by(Job.created_at.desc(), Job.job_id).limit(limit)
    with db.read() as session:
        return list(session.scalars(query if status is None else query.where(Job.status == status)))


def history(db: Database, job_id: str) -> tuple[list[JobEvent], list[Attempt]]:
    """Events and attempts of a job, oldest first."""
    with db.read() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.job_id == job_id).order_by(JobEvent.id))
        attempts = session.scalars(select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.id))
        return list(events), list(attempts)


def is_final(job: Job) -> bool:
    """Whether the job has ended for good."""
    if job.status is JobStatus.FAILED:
        return not is_retryable(job) or job.retry_count >= job.max_retries
    return not TRANSITIONS[job.status]


def is_retryable(job: Job) -> bool:
    """Whether the reason of a failed job's last failure is one that it is retried for."""
    reason = job.failure_reason
    return reason is None or reason.retryable or (job.retry_errors and reason.retried_if_asked)


def move(
    session: Session,
    job_id: str,
    before: JobStatus,
    after: JobStatus,
    *,
    fence: int | None = None,
    reason: str | None = None,
    detail: str | None = None,
    **values: Any,
) -> bool:
    """Change a job's status by one conditional update and record it.

    Returns False, with nothing changed, unless the job is `before` and, where a fence is given, its latest
    attempt is that one.
    """
    if after not in TRANSITIONS[before]:
        raise ValueError(f"no job goes from {before} to {after}")
    query = update(_jobs).where(_jobs.c.job_id == job_id, _jobs.c.status == before)
    if fence is not None:
        query = query.where(_jobs.c.attempt == fence)
    if session.connection().execute(query.values(status=after, **values)).rowcount == 0:
        return False
    _record(
        session, job_id, before, after, attempt=values.get("attempt", fence), reason=reason, detail=detail
    )
    return True


def move_many(
    session: Session, chosen: Select[str], before: JobStatus, after: JobStatus, reason: str, **values: Any
) -> int:
    """Change the status of the jobs whose ids `chosen` selects, and return how many changed."""
    if after not in TRANSITIONS[before]:
        raise ValueError(f"no job goes from {before} to {after}")
    moved = session.scalars(
        update(Job)
        .where(Job.job_id.in_(chosen), Job.status == before)
        .values(status=after, **values)
        .returning(Job.job_id)
        .execution_options(synchronize_session=False)
    ).all()
    if moved:
        event = {"before": before.value, "after": after.value, "reason": reason}
        session.execute(insert(JobEvent), [{"job_id": job_id, **event} for job_id in moved])
    return len(moved)


def _record(session: Session, job_id: str, before: JobStatus | None, after: JobStatus, **values: Any) -> None:
    session.flush()  # the job that the event is about
    event = {"job_id": job_id, "before": before and before.value, "after": after.value, **values}
    session.connection().execute(insert(_events).values(event))
