"""The parts all tables share: column types, times and ids, and the inserts that may find their rows there."""

import datetime as dt
import os
import time
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, GetCoreSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function
from sqlalchemy import DateTime, Table
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import declared_attr
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, Session, SQLModel

# Constraints have names everywhere, so that a later migration can find them; SQLite gives none by itself.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Utc(TypeDecorator[dt.datetime]):
    """A timezone-aware moment, stored in UTC; a naive one is rejected."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        return _naive(value) if value is not None else None

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        return value.replace(tzinfo=dt.UTC) if value is not None else None


def _naive(value: dt.datetime) -> dt.datetime:
    if value.tzinfo is None:
        raise ValueError(f"naive time {value!r}: give it a timezone")
    if value.tzinfo is not dt.UTC:
        value = value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def utcnow() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_id() -> str:
    """Return a random id, sortable by time of creation to the millisecond, 32 hex digits."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


class DeskTable(SQLModel):
    """Base of all tables. A table's name is its class's in snake_case, unless the class sets another."""

    model_config = ConfigDict(defer_build=True)  # type: ignore[assignment]

    @declared_attr.directive
    def __tablename__(cls) -> str:
        return to_snake(cls.__name__)


class _Parsed:
    """Rows of tables are made without validation; within another shape the JSON of one is parsed like any other."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def parsed(value: Any) -> Any:
            return source.model_validate(value) if isinstance(value, dict) else value

        return no_info_before_validator_function(parsed, handler(source))


_Table = TypeVar("_Table", bound=SQLModel)
Row = Annotated[_Table, _Parsed()]  # a row within a shape that is read back from JSON


class Identified(DeskTable):
    """Base of tables whose rows have a random id."""

    id: str = Field(default_factory=new_id, primary_key=True)


class HumanRequest(Identified):
    """Base of tables of requests that a person answers before they expire."""

    state: str = Field(index=True)
    asked_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)
    expires_at: dt.datetime = Field(sa_type=Utc)
    decided_at: dt.datetime | None = Field(default=None, sa_type=Utc)
    decided_by: str | None = None
    why: str | None = None


class Dated(DeskTable):
    """Base of tables whose rows have the time at which they were made."""

    created_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


def dialect_insert(session: Session, model: type[SQLModel]) -> Any:
    return insert_for(session.get_bind().dialect.name, model.__table__)  # type: ignore[attr-defined]


def absent_insert(session: Session, model: type[SQLModel]) -> Any:
    """An insert that leaves rows as they are that are there."""
    return _absent_insert(session.get_bind().dialect.name, model)


@cache
def _absent_insert(dialect: str, model: type[SQLModel]) -> Any:
    return insert_for(dialect, model.__table__).on_conflict_do_nothing()  # type: ignore[attr-defined]


def insert_for(dialect: str, table: Table) -> Any:
    """The two databases share no insert that leaves or changes existing rows."""
    from sqlalchemy.dialects import postgresql, sqlite  # what reads alone has no use for them

    return (sqlite if dialect == "sqlite" else postgresql).insert(table)
