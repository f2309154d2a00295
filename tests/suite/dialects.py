"""SQL that is compiled once for all databases of the test run.

SQLAlchemy keeps compiled statements by dialect, and each engine has a dialect of its own. A test has a database of its
own: without this it would compile all its statements anew, which is half of the time of most tests with a database.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

STATEMENTS = 10_000  # compiled ones that are kept


def share() -> None:
    """Let all engines keep their statements in one place, and take dialects of one kind for equal there: they compile
    a statement to the same text. Call it once."""
    made, statements = Engine.__init__, LRUCache(STATEMENTS)

    def init(self: Engine, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        self._compiled_cache = statements

    Engine.__init__ = init  # type: ignore[method-assign]
    DefaultDialect.__eq__ = _equal  # type: ignore[method-assign,assignment]
    DefaultDialect.__hash__ = _hash  # type: ignore[method-assign,assignment]


def _kind(dialect: Any) -> tuple[Any, ...]:
    serializers = (getattr(dialect, name, None) for name in ("_json_serializer", "_json_deserializer"))
    return type(dialect), dialect.paramstyle, dialect.server_version_info, *serializers


def _equal(one: object, other: object) -> bool:
    return one is other or (isinstance(other, DefaultDialect) and _kind(one) == _kind(other))


def _hash(dialect: object) -> int:
    return hash(_kind(dialect))
