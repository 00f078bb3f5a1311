"""Recommendations with their labels, and profiles."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "profiles",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("asked_by", sa.String(300)),
        sa.Column("target", sa.String(300), nullable=False),
        sa.Column("method", sa.String(300)),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("verdict", sa.String(16)),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_profiles"),
    )
    op.create_index("ix_profiles_created_at_id", "profiles", ["created_at", "id"])
    op.create_index("ix_profiles_sha256", "profiles", ["sha256"], unique=True)
    op.create_table(
        "recommendations",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("asked_by", sa.String(300)),
        sa.Column("target", sa.String(300), nullable=False),
        sa.Column("gpu", sa.String(300), nullable=False),
        sa.Column("method", sa.String(32), nullable=False),
        sa.Column("draft", sa.String(300)),
        sa.Column("num_speculative_tokens", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("decisive", sa.Boolean(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("end_to_end", sa.Float(), nullable=False),
        sa.Column("tpot", sa.Float(), nullable=False),
        sa.Column("basis", sa.String(16), nullable=False),
        sa.Column("prompt_count", sa.Integer(), nullable=False),
        sa.Column("prompts_sha256", sa.String(64), nullable=False),
        sa.Column("prompts", sa.Text()),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("profile_id", sa.String(64)),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profiles.id"], name="fk_recommendations_profile_id", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_recommendations"),
    )
    op.create_index("ix_recommendations_created_at_id", "recommendations", ["created_at", "id"])
    op.create_index("ix_recommendations_target_created_at", "recommendations", ["target", "created_at"])
    op.create_index("ix_recommendations_verdict_created_at", "recommendations", ["verdict", "created_at"])
    op.create_index("ix_recommendations_profile_id", "recommendations", ["profile_id"])
    op.create_table(
        "recommendation_labels",
        sa.Column("recommendation_id", sa.String(64), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["recommendation_id"],
            ["recommendations.id"],
            name="fk_recommendation_labels_recommendation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("recommendation_id", "label", name="pk_recommendation_labels"),
    )
    op.create_index("ix_recommendation_labels_label", "recommendation_labels", ["label"])


def downgrade() -> None:
    """Drop the three tables, and all that they hold."""
    op.drop_table("recommendation_labels")
    op.drop_table("recommendations")
    op.drop_table("profiles")
