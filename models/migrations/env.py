"""Alembic's entry: the connection comes from `models.database.store`, and all tables; those of features have
migrations and a table of versions of their own."""

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
    version_table=context.config.attributes.get("version_table", "alembic_version"),
    render_as_batch=True,
    render_item=_render,
    compare_type=False,
    # SQLite can take back changes of tables too, which Alembic does not assume of it.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
