"""Two workers on a real PostgreSQL: row locks in place of one writer."""

from __future__ import annotations

import pytest

from models.database.store import Store
from tests.tools.questions.test_resolving import resolve_at_once
from tools.market.replay.columns import ReplayData

pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed: pip install 'chordesk[postgres]'")
from tests.postgres import binaries, shared

FOUND = binaries()
WHY = "no PostgreSQL here: neither initdb and postgres on the PATH nor /usr/lib/postgresql/*/bin"
pytestmark = [
    pytest.mark.process, pytest.mark.postgres, pytest.mark.no_cover, pytest.mark.skipif(FOUND is None, reason=WHY),
]  # fmt: skip


@pytest.mark.parametrize("_", range(3))
def test_two_workers_at_once_resolve_and_book_once(data: ReplayData, _: int) -> None:
    assert FOUND is not None
    with shared(FOUND) as server:
        url = server.url(server.fresh(server.template()))
        first, second = Store(url), Store(url)
        try:
            resolve_at_once(first, second, data)
        finally:
            first.close()
            second.close()
