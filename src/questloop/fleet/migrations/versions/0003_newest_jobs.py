"""An index for the list of the newest jobs, which sorted every job before."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_jobs_newest", "jobs", [sa.text("created_at DESC"), "job_id"])


def downgrade() -> None:
    op.drop_index("ix_jobs_newest", "jobs")
