"""The Idempotency-Key of a recommendation."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns, empty for what was answered before."""
    op.add_column("recommendations", sa.Column("idempotency", sa.String(64)))
    op.add_column("recommendations", sa.Column("request_sha256", sa.String(64)))
    op.create_index("ix_recommendations_idempotency", "recommendations", ["idempotency"], unique=True)


def downgrade() -> None:
    """Forget the keys; recommendations stay.

    By DROP COLUMN, which SQLite has since 3.35: a table made anew would take the labels that refer to it along.
    """
    op.drop_index("ix_recommendations_idempotency", "recommendations")
    op.drop_column("recommendations", "request_sha256")
    op.drop_column("recommendations", "idempotency")
