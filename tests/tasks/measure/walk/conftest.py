"""One desk of real processes for the whole folder, and a walk over six sessions on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chordesk.models.tables.runs import Run
from tests.stack import processes
from tests.tasks.measure.walk.kit import WalkingDesk


@pytest.fixture(scope="package")
def desk() -> Iterator[WalkingDesk]:
    with processes() as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield WalkingDesk(found)


@pytest.fixture(scope="package")
def walked(desk: WalkingDesk) -> Run:
    """A walk that nothing disturbed."""
    return desk.walk()
