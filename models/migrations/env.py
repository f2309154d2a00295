"""Alembic's entry: the connection comes from `models.database.store`, and all tables."""

from alembic import context
from sqlmodel import SQLModel

from chordesk.models.tables.columns import Utc


def _render(kind, item, autogen_context):  # type: ignore[no-untyped-def]
    if kind == "type" and isinstance(item, Utc):
        return "sa.DateTime()"
    return False


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    render_item=_render,
    compare_type=False,
    # SQLite can take back changes of tables too, which Alembic does not assume of it.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
