"""The first schema: machines, slots, jobs, attempts, claims and events."""

import time

import sqlalchemy as sa
from alembic import op

from questloop.fleet.models import db_now

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


_FENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "job_events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=db_now(), nullable=False),
        sa.Column("attempt", _FENCE, nullable=True),
        sa.Column("before", sa.String(length=32), nullable=True),
        sa.Column("after", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_events")),
    )
    with op.batch_alter_table("job_events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_events_job_id"), ["job_id"], unique=False)

    op.create_table(
        "jobs",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "grpo",
                "judge",
                "command",
                name="jobkind",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            server_default="grpo",
            nullable=False,
        ),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("dataset", sa.Text(), nullable=True),
        sa.Column("reward_function", sa.Text(), nullable=True),
        sa.Column("arguments", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("inputs", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("output_url", sa.Text(), nullable=True),
        sa.Column(
            "status",
            sa.Enum(
                "queued",
                "pending",
                "running",
                "lost",
                "failed",
                "completed",
                "cancelled",
                name="jobstatus",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            server_default="queued",
            nullable=False,
        ),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("gpus", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("memory_mb", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("shared", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("retry_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_retries", sa.Integer(), server_default=sa.text("3"), nullable=False),
        sa.Column(
            "failure_reason",
            sa.Enum(
                "bad_arguments",
                "missing_dataset",
                "bad_data",
                "command_not_found",
                "out_of_gpu_memory",
                "cuda_error",
                "disk_full",
                "unavailable",
                "preempted",
                "killed",
                "error",
                "input_unavailable",
                "output_not_stored",
                "launch_failed",
                "launch_refused",
                "machine_rebooted",
                "machine_unreachable",
                "runner_gone",
                "heartbeat_stale",
                "lease_expired",
                name="failurereason",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=True,
        ),
        sa.Column("failure_detail", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("attempt", _FENCE, nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=db_now(), nullable=False),
        sa.Column("pending_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("gpus >= 0 AND memory_mb >= 0", name=op.f("ck_jobs_demand")),
        sa.CheckConstraint("retry_count >= 0 AND max_retries >= 0", name=op.f("ck_jobs_retries")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_jobs")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index("ix_jobs_status", ["status", "finished_at"], unique=False)
    for name, where in (
        ("waiting", "status IN ('queued', 'pending')"),
        ("queued", "status = 'queued'"),
        ("large", "status = 'pending' AND gpus > 1"),
    ):
        op.create_index(
            f"ix_jobs_{name}",
            "jobs",
            [sa.text("priority DESC"), "created_at", "job_id"],
            postgresql_where=sa.text(where),
            sqlite_where=sa.text(where),
        )

    op.create_table(
        "vms",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("ip_address", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), server_default=sa.text("22"), nullable=False),
        sa.Column("user", sa.String(length=64), nullable=True),
        sa.Column("ssh_key_path", sa.Text(), nullable=True),
        sa.Column("host_key", sa.Text(), nullable=True),
        sa.Column(
            "transport",
            sa.Enum(
                "ssh", "local", name="transportkind", native_enum=False, create_constraint=True, length=32
            ),
            server_default="ssh",
            nullable=False,
        ),
        sa.Column("cpu_slots", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("total_gpus", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("available_gpus", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "needs_host_key",
                "host_key_changed",
                "needs_setup",
                "new",
                "ready",
                "unreachable",
                name="vmstate",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            server_default="needs_host_key",
            nullable=False,
        ),
        sa.Column("state_detail", sa.Text(), nullable=True),
        sa.Column(
            "drain_reason",
            sa.Enum(
                "operator",
                "gpu_count_fell",
                "failing",
                name="drainreason",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=True,
        ),
        sa.Column("boot_id", sa.String(length=64), nullable=True),
        sa.Column("last_polled", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=db_now(), nullable=False),
        sa.CheckConstraint(
            "available_gpus >= 0 AND available_gpus <= total_gpus", name=op.f("ck_vms_available")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vms")),
        sa.UniqueConstraint("name", name=op.f("uq_vms_name")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", _FENCE, nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("vm_id", sa.Integer(), nullable=True),
        sa.Column("vm_name", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("owner_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("held_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("launched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "ending",
            sa.Enum(
                "completed",
                "failed",
                "cancelled",
                "lost",
                name="ending",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=True,
        ),
        sa.Column(
            "reason",
            sa.Enum(
                "bad_arguments",
                "missing_dataset",
                "bad_data",
                "command_not_found",
                "out_of_gpu_memory",
                "cuda_error",
                "disk_full",
                "unavailable",
                "preempted",
                "killed",
                "error",
                "input_unavailable",
                "output_not_stored",
                "launch_failed",
                "launch_refused",
                "machine_rebooted",
                "machine_unreachable",
                "runner_gone",
                "heartbeat_stale",
                "lease_expired",
                name="failurereason",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            nullable=True,
        ),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_attempts_job_id_jobs")),
        sa.ForeignKeyConstraint(
            ["vm_id"], ["vms.id"], name=op.f("fk_attempts_vm_id_vms"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_attempts_job_id"), ["job_id"], unique=False)
        batch_op.create_index(
            "ix_attempts_live",
            ["owner_until"],
            unique=False,
            postgresql_where=sa.text("ended_at IS NULL"),
            sqlite_where=sa.text("ended_at IS NULL"),
        )
        batch_op.create_index(batch_op.f("ix_attempts_vm_id"), ["vm_id"], unique=False)
        batch_op.create_index(
            "uq_attempts_one_live",
            ["job_id"],
            unique=True,
            postgresql_where=sa.text("ended_at IS NULL"),
            sqlite_where=sa.text("ended_at IS NULL"),
        )

    op.create_table(
        "slots",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("vm_id", sa.Integer(), nullable=False),
        sa.Column(
            "kind",
            sa.Enum("cuda", "cpu", name="slotkind", native_enum=False, create_constraint=True, length=32),
            nullable=False,
        ),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=96), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=True),
        sa.Column("memory_mb", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("memory_used_mb", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("utilisation", sa.Integer(), nullable=True),
        sa.Column(
            "health",
            sa.Enum(
                "healthy",
                "unhealthy",
                "unknown",
                "missing",
                name="health",
                native_enum=False,
                create_constraint=True,
                length=32,
            ),
            server_default="unknown",
            nullable=False,
        ),
        sa.Column("foreign_use", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("claims", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("claimed_mb", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("exclusive", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("claim_changed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("NOT exclusive OR claims = 1", name=op.f("ck_slots_exclusive")),
        sa.CheckConstraint("claims >= 0 AND claimed_mb >= 0", name=op.f("ck_slots_claimed")),
        sa.ForeignKeyConstraint(["vm_id"], ["vms.id"], name=op.f("fk_slots_vm_id_vms")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slots")),
        sa.UniqueConstraint("vm_id", "uuid", name=op.f("uq_slots_vm_id")),
    )
    with op.batch_alter_table("slots", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_slots_vm_id"), ["vm_id"], unique=False)

    op.create_table(
        "claims",
        sa.Column("slot_id", sa.Integer(), nullable=False),
        sa.Column("attempt_id", _FENCE, nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_claims_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["slot_id"], ["slots.id"], name=op.f("fk_claims_slot_id_slots")),
        sa.PrimaryKeyConstraint("slot_id", "attempt_id", name=op.f("pk_claims")),
    )
    with op.batch_alter_table("claims", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_claims_attempt_id"), ["attempt_id"], unique=False)

    first = int(time.time())
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('attempts', {first})")
    else:
        op.execute(f"SELECT setval(pg_get_serial_sequence('attempts', 'id'), {first})")


def downgrade() -> None:
    for table in ("claims", "slots", "attempts", "vms", "jobs", "job_events"):
        op.drop_table(table)
