"""Alembic's entry: runs migrations on the connection that `api.history.schema` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from api.history.tables import metadata
from api.jobs import tables as _jobs  # noqa: F401  # its tables are of the same metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=connection.dialect.name == "sqlite")
context.run_migrations()
