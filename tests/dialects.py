"""SQL that is compiled once for all databases of the test run.

SQLAlchemy keeps compiled statements by dialect, and each engine has a dialect of its own. A test has a database of its
own: without this it would compile all its statements anew, which is half of the time of most tests with a database.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.util import LRUCache

_known: dict[tuple[Any, ...], Dialect] = {}


def share() -> None:
    """Make each engine use the dialect of the first one of its kind that has connected. Call it once."""
    made, statements = Engine.__init__, LRUCache(10_000)

    def init(self: Engine, pool: Any, dialect: Dialect, *rest: Any, **options: Any) -> None:
        made(self, pool, _shared(dialect), *rest, **options)
        self._compiled_cache = statements

    Engine.__init__ = init  # type: ignore[method-assign]


def _shared(dialect: Dialect) -> Dialect:
    kind = (type(dialect), *(getattr(dialect, name, None) for name in ("_json_serializer", "_json_deserializer")))
    known = _known.get(kind)
    if known is None or not known.server_version_info:  # it has not connected yet
        _known[kind] = known = dialect
    return known
