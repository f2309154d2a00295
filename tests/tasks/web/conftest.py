"""One service for the folder's tests that only ask, with a researched run in its database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.tasks.views.chain import Chain, a_chain
from tests.tasks.web.kit import Service, service


@dataclass(frozen=True, slots=True)
class Floor:
    service: Service
    client: httpx.Client
    chain: Chain


@pytest.fixture(scope="package")
def floor() -> Iterator[Floor]:
    with service() as running, running.client() as client:
        with running.store.session() as session:
            chain = a_chain(session)
        yield Floor(running, client, chain)
