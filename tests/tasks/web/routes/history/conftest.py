"""A desk with its service, and a screen that rules have finished on it: what the folder's tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL
from tests.stack import processes, wait_for
from tests.tasks.web.kit import Service, start

UNIVERSE = ["AAPL", "IBM", "KO", "MMM", "XOM", "JPM"]
BY = {"by": "Ann Lee"}


@dataclass(frozen=True, slots=True)
class Screened:
    """run_id: a whole screen, from its universe to its orders."""

    service: Service
    client: httpx.Client
    run_id: str

    def get(self, path: str, **params: Any) -> Any:
        response = self.client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()


@pytest.fixture(scope="package")
def screened() -> Iterator[Screened]:
    with processes() as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade", concurrency=8)
        url, token = start(desk)
        store = Store(desk.settings.database)
        service = Service(desk, store, url, token)
        with service.client() as client:
            yield Screened(service, client, finished(client, {"kind": "screen", "symbols": UNIVERSE, **BY}))
        store.close()


def finished(client: httpx.Client, asked: dict[str, Any]) -> str:
    """Start a run and wait for its end; its id."""
    begun = client.post("/runs", json=asked)
    assert begun.status_code == 201, begun.text
    run_id: str = begun.json()["id"]
    wait_for(lambda: client.get(f"/runs/{run_id}").json()["state"] in RUN_FINAL, "the run has ended")
    return run_id
