"""Where an order desk's database is: SQLite in its folder, or a PostgreSQL server of its own where the machine has
one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.postgres import server


@contextmanager
def database_of(postgres: bool) -> Iterator[dict[str, str]]:
    """The settings that name it; a server runs as long as the block."""
    if not postgres:
        yield {}
        return
    with server() as running:
        yield {"DESK_DATABASE_URL": running.empty()}
