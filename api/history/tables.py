"""What is kept, column by column: recommendations with their labels, and profiles.

Columns beside the documents are those that lists filter, sort and show; everything else stands in the documents, which
are kept as the JSON text that was answered. Prompts have a column of their own, which is empty unless the client asked
for them to be kept. Changes here need a migration (`migrations/versions`); a test compares the two.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

ID_CHARACTERS = 64
NAME_CHARACTERS = 300  # as long as a name in a request may be


class UtcDateTime(TypeDecorator[datetime]):
    """A moment; SQLite has no time zones, so it is kept in UTC there and told with its zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To what the database keeps."""
        if value is None:
            return None
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From what the database kept."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

profiles = Table(
    "profiles",
    metadata,
    Column("id", String(ID_CHARACTERS), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("asked_by", String(NAME_CHARACTERS)),  # name of the API key; null where no keys are asked for
    Column("target", String(NAME_CHARACTERS), nullable=False),
    Column("method", String(NAME_CHARACTERS)),
    Column("status", String(16), nullable=False),
    Column("verdict", String(16)),
    Column("sha256", String(64), nullable=False),  # of the document, so that one is kept once
    Column("document", Text, nullable=False),
)
Index(None, profiles.c.created_at, profiles.c.id)
Index(None, profiles.c.sha256, unique=True)

recommendations = Table(
    "recommendations",
    metadata,
    Column("id", String(ID_CHARACTERS), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("asked_by", String(NAME_CHARACTERS)),
    Column("target", String(NAME_CHARACTERS), nullable=False),
    Column("gpu", String(NAME_CHARACTERS), nullable=False),
    Column("method", String(32), nullable=False),
    Column("draft", String(NAME_CHARACTERS)),
    Column("num_speculative_tokens", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("decisive", Boolean, nullable=False),
    Column("probability", Float, nullable=False),
    Column("end_to_end", Float, nullable=False),  # speedups of the chosen candidate
    Column("tpot", Float, nullable=False),
    Column("basis", String(16), nullable=False),
    Column("prompt_count", Integer, nullable=False),
    Column("prompts_sha256", String(64), nullable=False),
    Column("prompts", Text),  # JSON, only where the client asked for it
    Column("request", Text, nullable=False),  # JSON without prompts
    Column("answer", Text, nullable=False),  # JSON, byte for byte as it was answered
    Column("note", Text, nullable=False),
    Column("profile_id", String(ID_CHARACTERS), ForeignKey(profiles.c.id, ondelete="SET NULL")),
    Column("idempotency", String(64)),  # SHA-256 of the caller and its Idempotency-Key; null where none came
    Column("request_sha256", String(64)),  # of the request that came with that key, prompts and all
)
Index(None, recommendations.c.created_at, recommendations.c.id)
Index(None, recommendations.c.target, recommendations.c.created_at)
Index(None, recommendations.c.verdict, recommendations.c.created_at)
Index(None, recommendations.c.profile_id)
Index(None, recommendations.c.idempotency, unique=True)

labels = Table(
    "recommendation_labels",
    metadata,
    Column(
        "recommendation_id",
        String(ID_CHARACTERS),
        ForeignKey(recommendations.c.id, ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("label", String(64), primary_key=True),
)
Index(None, labels.c.label)
