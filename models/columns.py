"""What every table is made of: column types, times and ids."""

from __future__ import annotations

import datetime as dt
import os
import random
import time
from typing import Any

from sqlalchemy import JSON, Column, DateTime
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlmodel import SQLModel

# Constraints have names everywhere, so that a later migration can find them; SQLite gives none by itself.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


# Asking the kernel for each id would let other threads in between: with many of them that takes 50 times as long.
_random = random.Random()
os.register_at_fork(after_in_child=_random.seed)


class Utc(TypeDecorator[dt.datetime]):
    """A timezone-aware moment, stored in UTC; a naive one is refused."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Any:
        """SQLAlchemy's own way to the text that SQLite holds takes longer than the row that it goes into."""
        if dialect.name == "sqlite":
            return lambda value: _naive(value).isoformat(" ", "microseconds") if value is not None else None
        return super().bind_processor(dialect)

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        return _naive(value) if value is not None else None

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        return value.replace(tzinfo=dt.UTC) if value is not None else None


def _naive(value: dt.datetime) -> dt.datetime:
    """The same moment in UTC without saying so. Raises ValueError for one that does not say its timezone."""
    if value.tzinfo is None:
        raise ValueError(f"naive time {value!r}: give it a timezone")
    if value.tzinfo is not dt.UTC:
        value = value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def utcnow() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_id() -> str:
    """A random id, sortable by time of creation to the millisecond, 32 hex digits."""
    return f"{time.time_ns() // 1_000_000:012x}{_random.getrandbits(80):020x}"


def utc_column(*, nullable: bool = False, index: bool = False) -> Any:
    return Column(Utc(), nullable=nullable, index=index)


def json_column() -> Any:
    return Column(JSON, nullable=False)
