"""Where an order desk's database is: SQLite in its folder, or a PostgreSQL server of its own where the machine has
one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

NO_DRIVER = "skipped: PostgreSQL's driver is not installed"
NO_SERVER = "skipped: no PostgreSQL server on this machine"


def missing() -> str | None:
    """Why there can be no server here; None when there can."""
    if importlib.util.find_spec("psycopg") is None:
        return NO_DRIVER
    return None if importlib.import_module("tests.postgres").binaries() else NO_SERVER


@contextmanager
def database_of(postgres: bool) -> Iterator[dict[str, str]]:
    """The settings that name it; a server runs as long as the block."""
    if not postgres:
        yield {}
        return
    module = importlib.import_module("tests.postgres")  # needs the driver, which is an extra
    with module.server(module.binaries()) as server:
        yield {"DESK_DATABASE_URL": server.url(server.fresh())}
