"""Two workers on a real PostgreSQL: row locks in place of one writer."""

from __future__ import annotations

import pytest

from chordesk.models.database.store import Store
from chordesk.tools.market.replay.market import ReplayData
from tests.tools.questions.test_resolving import resolve_at_once

pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]


@pytest.mark.parametrize("_", range(3))
def test_two_workers_at_once_resolve_and_book_once(data: ReplayData, postgres_url: str, _: int) -> None:
    first, second = Store(postgres_url), Store(postgres_url)
    try:
        resolve_at_once(first, second, data)
    finally:
        first.close()
        second.close()
