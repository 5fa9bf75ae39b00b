"""Machines without a name, launch failures by machine, jobs' environment, and which failures are retried."""

import sqlalchemy as sa
from alembic import op

from questloop.fleet.models import db_now

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_AVAILABLE = "available_gpus >= 0 AND (available_gpus <= total_gpus OR last_polled IS NULL)"
_JOBS: tuple[sa.Column, ...] = (
    sa.Column("environment", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
    sa.Column("retry_errors", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.Column("memory_before_mb", sa.Integer(), nullable=True),
    sa.Column("log_note", sa.Text(), nullable=True),
)


def upgrade() -> None:
    for column in _JOBS:
        op.add_column("jobs", column)
    # Jobs that were queued when every exit code was retried keep that.
    op.execute(sa.text("UPDATE jobs SET retry_errors = true WHERE status NOT IN ('completed', 'cancelled')"))
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_machines()
        return
    op.alter_column("vms", "name", nullable=True)
    op.drop_constraint(op.f("ck_vms_available"), "vms", type_="check")
    op.create_check_constraint(op.f("ck_vms_available"), "vms", _AVAILABLE)
    for added in _machine_columns():
        op.add_column("vms", added)


def downgrade() -> None:
    raise NotImplementedError("restore a copy of the database from before the upgrade")


def _machine_columns() -> list[sa.Column]:
    return [
        sa.Column("blamed_by", sa.JSON(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("launch_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
    ]


def _rebuild_machines() -> None:
    """SQLite changes no constraint: the table is copied, with foreign keys off (`Database.migrate`)."""
    kept = (
        *("id", "name", "ip_address", "port", "user", "ssh_key_path", "host_key", "transport", "cpu_slots"),
        *("total_gpus", "available_gpus", "state", "state_detail", "drain_reason", "boot_id", "last_polled"),
        *("failures", "created_at"),
    )
    op.create_table(
        "vms_new",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=True),
        sa.Column("ip_address", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), server_default=sa.text("22"), nullable=False),
        sa.Column("user", sa.String(length=64), nullable=True),
        sa.Column("ssh_key_path", sa.Text(), nullable=True),
        sa.Column("host_key", sa.Text(), nullable=True),
        sa.Column("transport", _enum("transportkind", "ssh", "local"), server_default="ssh", nullable=False),
        sa.Column("cpu_slots", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("total_gpus", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("available_gpus", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "state",
            _enum(
                "vmstate", "needs_host_key", "host_key_changed", "needs_setup", "new", "ready", "unreachable"
            ),
            server_default="needs_host_key",
            nullable=False,
        ),
        sa.Column("state_detail", sa.Text(), nullable=True),
        sa.Column(
            "drain_reason", _enum("drainreason", "operator", "gpu_count_fell", "failing"), nullable=True
        ),
        sa.Column("boot_id", sa.String(length=64), nullable=True),
        sa.Column("last_polled", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=db_now(), nullable=False),
        *_machine_columns(),
        sa.CheckConstraint(_AVAILABLE, name=op.f("ck_vms_available")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vms")),
        sa.UniqueConstraint("name", name=op.f("uq_vms_name")),
    )
    columns = ", ".join(f'"{name}"' for name in kept)
    op.execute(f"INSERT INTO vms_new ({columns}) SELECT {columns} FROM vms")
    op.drop_table("vms")
    op.rename_table("vms_new", "vms")


def _enum(name: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=name, native_enum=False, create_constraint=True, length=32)
