"""Profile jobs, their events, and the devices that they hold."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "profile_jobs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("asked_by", sa.String(300)),
        sa.Column("idempotency", sa.String(64)),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("target", sa.String(300), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("prompts", sa.Text()),
        sa.Column("prompt_count", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("cancelling", sa.Boolean(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("worker", sa.String(300)),
        sa.Column("lease_until", _MOMENT),
        sa.Column("started_at", _MOMENT),
        sa.Column("ended_at", _MOMENT),
        sa.Column("ended", sa.Text()),
        sa.Column("problem", sa.Text()),
        sa.Column("partial", sa.Text()),
        sa.Column("profile_id", sa.String(64)),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profiles.id"], name="fk_profile_jobs_profile_id", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_profile_jobs"),
    )
    op.create_index("ix_profile_jobs_created_at_id", "profile_jobs", ["created_at", "id"])
    op.create_index("ix_profile_jobs_state_created_at", "profile_jobs", ["state", "created_at"])
    op.create_index("ix_profile_jobs_idempotency", "profile_jobs", ["idempotency"], unique=True)
    op.create_index("ix_profile_jobs_profile_id", "profile_jobs", ["profile_id"])
    op.create_table(
        "profile_job_events",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["profile_jobs.id"], name="fk_profile_job_events_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_profile_job_events"),
    )
    op.create_table(
        "profile_job_devices",
        sa.Column("device", sa.String(300), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["profile_jobs.id"], name="fk_profile_job_devices_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("device", name="pk_profile_job_devices"),
    )
    op.create_index("ix_profile_job_devices_job_id", "profile_job_devices", ["job_id"])


def downgrade() -> None:
    """Drop the three tables; profiles that jobs measured stay."""
    op.drop_table("profile_job_devices")
    op.drop_table("profile_job_events")
    op.drop_table("profile_jobs")
