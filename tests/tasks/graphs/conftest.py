"""A desk whose graphs run, one for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.obedient import obedient
from tests.tasks.graphs.kit import Graphs, graphs


@pytest.fixture(scope="module")
def shared() -> Iterator[Graphs]:
    with graphs() as found:
        yield found


@pytest.fixture
def desk(shared: Graphs) -> Graphs:
    shared.model.policy = obedient
    shared.model.requests.clear()
    return shared
