"""The tables of the fleet's database.

Every column that a person need not think about has a default in the database, so that inserting a row is
enough to add a machine (`ip_address`, `user`, `ssh_key_path`) or to queue a job (`job_id` and what it is to
run).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    Enum,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.sql.functions import FunctionElement

from questloop.fleet.states import (
    DrainReason,
    Ending,
    FailureReason,
    Health,
    JobKind,
    JobStatus,
    SlotKind,
    TransportKind,
    VMState,
)

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(value: str) -> str:
    """`value` as every database takes it: PostgreSQL knows no NUL, and none knows half a surrogate pair.

    The last line of a job's log, a driver's words and a message may hold either; U+FFFD stands for them.
    """
    return _UNSTORABLE.sub("\ufffd", value)


class UTCDateTime(TypeDecorator[datetime]):
    """A point in time. Naive datetimes are refused; values read are in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class _Storable:
    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Name(_Storable, TypeDecorator[str]):
    """A short text of at most so many characters."""

    impl = String
    cache_ok = True


class Prose(_Storable, TypeDecorator[str]):
    """A text of any length."""

    impl = Text
    cache_ok = True


class db_now(FunctionElement[datetime]):
    """The database's clock at this moment (on PostgreSQL not that of the transaction's start)."""

    type = UTCDateTime()
    inherit_cache = True


@compiles(db_now, "postgresql")
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return "clock_timestamp()"


@compiles(db_now, "sqlite")
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


class db_ago(FunctionElement[datetime]):
    """The database's clock at this moment, less a number of seconds."""

    type = UTCDateTime()
    inherit_cache = True


@compiles(db_ago, "postgresql")
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return f"clock_timestamp() - make_interval(secs => {compiler.process(element.clauses, **kw)})"


@compiles(db_ago, "sqlite")
def _(element: Any, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', (-{seconds}) || ' seconds')"


def _enum(kind: type) -> Enum:
    return Enum(
        kind,
        native_enum=False,
        create_constraint=True,
        length=32,
        name=kind.__name__.lower(),
        values_callable=lambda members: [member.value for member in members],
    )


class Base(DeclarativeBase):
    """Base of the fleet's tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        datetime: UTCDateTime(),
        dict[str, Any]: JSON(),
        JobStatus: _enum(JobStatus),
        JobKind: _enum(JobKind),
        FailureReason: _enum(FailureReason),
        VMState: _enum(VMState),
        DrainReason: _enum(DrainReason),
        TransportKind: _enum(TransportKind),
        SlotKind: _enum(SlotKind),
        Health: _enum(Health),
        Ending: _enum(Ending),
    }


_Fence = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up only what is called INTEGER


class VM(Base):
    """A machine. `total_gpus` and `available_gpus` count GPUs, never CPU slots.

    A row without a name is named after its address (`machines.name_bare_rows`). A number of free GPUs that
    came with the row stands until the first poll, which says what there is.
    """

    __tablename__ = "vms"
    __table_args__ = (
        CheckConstraint(
            "available_gpus >= 0 AND (available_gpus <= total_gpus OR last_polled IS NULL)", name="available"
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Name(64), unique=True, nullable=True)
    ip_address: Mapped[str] = mapped_column(Name(255))
    port: Mapped[int] = mapped_column(server_default=text("22"))
    user: Mapped[str | None] = mapped_column(Name(64))
    ssh_key_path: Mapped[str | None] = mapped_column(Prose)
    host_key: Mapped[str | None] = mapped_column(Prose)
    transport: Mapped[TransportKind] = mapped_column(server_default=TransportKind.SSH.value)
    cpu_slots: Mapped[int] = mapped_column(server_default=text("0"))
    total_gpus: Mapped[int] = mapped_column(server_default=text("0"))
    available_gpus: Mapped[int] = mapped_column(server_default=text("0"))
    state: Mapped[VMState] = mapped_column(server_default=VMState.NEEDS_HOST_KEY.value)
    state_detail: Mapped[str | None] = mapped_column(Prose)
    drain_reason: Mapped[DrainReason | None]
    boot_id: Mapped[str | None] = mapped_column(Name(64))
    last_polled: Mapped[datetime | None]
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    blamed_by: Mapped[list[Any]] = mapped_column(JSON, server_default=text("'[]'"))
    launch_failures: Mapped[int] = mapped_column(server_default=text("0"))
    retry_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=db_now())
    slots: Mapped[list[Slot]] = relationship(
        back_populates="vm", cascade="all, delete-orphan", order_by="Slot.index"
    )


class Slot(Base):
    """Something a job is put on. `claims` and `claimed_mb` sum up the slot's rows in `claims`."""

    __tablename__ = "slots"
    __table_args__ = (
        UniqueConstraint("vm_id", "uuid"),
        CheckConstraint("claims >= 0 AND claimed_mb >= 0", name="claimed"),
        CheckConstraint("NOT exclusive OR claims = 1", name="exclusive"),
    )
    __mapper_args__ = {"polymorphic_on": "kind"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    vm_id: Mapped[int] = mapped_column(ForeignKey("vms.id"), index=True)
    kind: Mapped[SlotKind]
    index: Mapped[int]
    uuid: Mapped[str] = mapped_column(Name(96))
    name: Mapped[str | None] = mapped_column(Name(128))
    memory_mb: Mapped[int] = mapped_column(server_default=text("0"))
    memory_used_mb: Mapped[int] = mapped_column(server_default=text("0"))
    utilisation: Mapped[int | None]
    health: Mapped[Health] = mapped_column(server_default=Health.UNKNOWN.value)
    foreign_use: Mapped[bool] = mapped_column(server_default=false())
    claims: Mapped[int] = mapped_column(server_default=text("0"))
    claimed_mb: Mapped[int] = mapped_column(server_default=text("0"))
    exclusive: Mapped[bool] = mapped_column(server_default=false())
    claim_changed_at: Mapped[datetime | None]
    vm: Mapped[VM] = relationship(back_populates="slots")


class GPU(Slot):
    """A GPU or a MIG slice, known by its UUID."""

    __mapper_args__ = {"polymorphic_identity": SlotKind.CUDA}  # noqa: RUF012


class CPUSlot(Slot):
    """A place for a job that asks for no GPU."""

    __mapper_args__ = {"polymorphic_identity": SlotKind.CPU}  # noqa: RUF012


def _by_rank(name: str, where: str) -> Index:
    """An index of the jobs `where` holds for, the best first: by priority, then by age."""
    condition = text(where)
    return Index(
        name,
        text("priority DESC"),
        "created_at",
        "job_id",
        postgresql_where=condition,
        sqlite_where=condition,
    )


class Job(Base):
    """A job. `attempt` is the fence of its latest attempt.

    `retry_errors` asks for retries also where the job's own program failed. `memory_before_mb` is what
    `memory_mb` was before the job ran out of GPU memory and was sent to a larger GPU. `log_note` says what is
    missing of the log in LOG_DIR.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        _by_rank("ix_jobs_waiting", "status IN ('queued', 'pending')"),
        _by_rank("ix_jobs_queued", "status = 'queued'"),
        _by_rank("ix_jobs_large", "status = 'pending' AND gpus > 1"),
        Index("ix_jobs_status", "status", "finished_at"),
        Index("ix_jobs_newest", text("created_at DESC"), "job_id"),
        CheckConstraint("gpus >= 0 AND memory_mb >= 0", name="demand"),
        CheckConstraint("retry_count >= 0 AND max_retries >= 0", name="retries"),
    )

    job_id: Mapped[str] = mapped_column(Name(64), primary_key=True)
    kind: Mapped[JobKind] = mapped_column(server_default=JobKind.GRPO.value)
    model: Mapped[str | None] = mapped_column(Prose)
    dataset: Mapped[str | None] = mapped_column(Prose)
    reward_function: Mapped[str | None] = mapped_column(Prose)
    arguments: Mapped[Any] = mapped_column(JSON, server_default=text("'{}'"))
    inputs: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    environment: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    output_url: Mapped[str | None] = mapped_column(Prose)
    status: Mapped[JobStatus] = mapped_column(server_default=JobStatus.QUEUED.value)
    priority: Mapped[int] = mapped_column(server_default=text("0"))
    gpus: Mapped[int] = mapped_column(server_default=text("1"))
    memory_mb: Mapped[int] = mapped_column(server_default=text("0"))
    shared: Mapped[bool] = mapped_column(server_default=false())
    retry_count: Mapped[int] = mapped_column(server_default=text("0"))
    max_retries: Mapped[int] = mapped_column(server_default=text("3"))
    retry_errors: Mapped[bool] = mapped_column(server_default=false())
    memory_before_mb: Mapped[int | None]
    failure_reason: Mapped[FailureReason | None]
    failure_detail: Mapped[str | None] = mapped_column(Prose)
    exit_code: Mapped[int | None]
    log_note: Mapped[str | None] = mapped_column(Prose)
    attempt: Mapped[int | None] = mapped_column(_Fence)
    cancel_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=db_now())
    pending_since: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Attempt(Base):
    """One try at a job on one machine. Its id is the fence: claims of a slot hand out ever higher ones.

    The first id of a database is the second it was made in, so that machines, which remember fences, take
    those of a new database for newer than those of one that was lost.
    """

    __tablename__ = "attempts"
    __table_args__ = (
        Index(
            "uq_attempts_one_live",
            "job_id",
            unique=True,
            postgresql_where=text("ended_at IS NULL"),
            sqlite_where=text("ended_at IS NULL"),
        ),
        Index(
            "ix_attempts_live",
            "owner_until",
            postgresql_where=text("ended_at IS NULL"),
            sqlite_where=text("ended_at IS NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(_Fence, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"), index=True)
    vm_id: Mapped[int | None] = mapped_column(ForeignKey("vms.id", ondelete="SET NULL"), index=True)
    vm_name: Mapped[str] = mapped_column(Name(64))
    owner: Mapped[str] = mapped_column(Name(128))
    owner_until: Mapped[datetime]
    boot_id: Mapped[str | None] = mapped_column(Name(64))
    lease_until: Mapped[datetime | None]
    held_since: Mapped[datetime | None]
    claimed_at: Mapped[datetime]
    launched_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    ending: Mapped[Ending | None]
    reason: Mapped[FailureReason | None]
    exit_code: Mapped[int | None]


class Claim(Base):
    """A slot held by an attempt; the row goes when the attempt ends."""

    __tablename__ = "claims"

    slot_id: Mapped[int] = mapped_column(ForeignKey("slots.id"), primary_key=True)
    attempt_id: Mapped[int] = mapped_column(_Fence, ForeignKey("attempts.id"), primary_key=True, index=True)
    memory_mb: Mapped[int]


class JobEvent(Base):
    """A change of a job's state: the audit."""

    __tablename__ = "job_events"

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(Name(64), index=True)
    at: Mapped[datetime] = mapped_column(server_default=db_now())
    attempt: Mapped[int | None] = mapped_column(_Fence)
    before: Mapped[str | None] = mapped_column(Name(32))
    after: Mapped[str] = mapped_column(Name(32))
    reason: Mapped[str | None] = mapped_column(Name(64))
    detail: Mapped[str | None] = mapped_column(Prose)
