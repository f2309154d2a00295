"""The parts all tables share: column types, times and ids, and statements that are composed once."""

from __future__ import annotations

import datetime as dt
import os
import random
import threading
import time
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from pydantic.alias_generators import to_snake
from sqlalchemy import DateTime
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import declared_attr
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

# Constraints have names everywhere, so that a later migration can find them; SQLite gives none by itself.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


# A system call for each id would let other threads run in between: with many of them that takes 50 times as long.
_random = random.Random()
os.register_at_fork(after_in_child=_random.seed)


class Utc(TypeDecorator[dt.datetime]):
    """A timezone-aware moment, stored in UTC; a naive one is rejected."""

    impl = DateTime(timezone=False)
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Any:
        """Return a faster conversion for SQLite: SQLAlchemy's own takes longer than the insert of the row."""
        if dialect.name == "sqlite":
            return lambda value: _naive(value).isoformat(" ", "microseconds") if value is not None else None
        return super().bind_processor(dialect)

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        return _naive(value) if value is not None else None

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        return value.replace(tzinfo=dt.UTC) if value is not None else None


def _naive(value: dt.datetime) -> dt.datetime:
    """Return the same moment in UTC without its timezone. Raises ValueError for a naive moment."""
    if value.tzinfo is None:
        raise ValueError(f"naive time {value!r}: give it a timezone")
    if value.tzinfo is not dt.UTC:
        value = value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def utcnow() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_id() -> str:
    """Return a random id, sortable by time of creation to the millisecond, 32 hex digits."""
    return f"{time.time_ns() // 1_000_000:012x}{_random.getrandbits(80):020x}"


class DeskTable(SQLModel):
    """Base of all tables. A table's name is its class's in snake_case, unless the class sets another."""

    @declared_attr.directive
    def __tablename__(cls) -> str:
        return to_snake(cls.__name__)


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


P = ParamSpec("P")
T = TypeVar("T")


def composed_once(compose: Callable[P, T]) -> Callable[P, T]:
    """Return a function that composes a statement with its first call and returns the same object ever after.

    `functools.cache` alone does not: threads that call it first at the same time each get an object of their own.
    SQLAlchemy then compiles one of them, and has to match the columns of each result of the other anew.
    """
    kept, lock = cache(compose), threading.Lock()

    @wraps(compose)
    def statement(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return kept(*args, **kwargs)  # type: ignore[arg-type]

    return statement
