"""Flower lets nobody in but its login, and keeps its API closed."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from chordesk.tasks.web.security import flower_path
from tests.patience import PATIENCE
from tests.stack import free_port, listens, processes, wait_for


@pytest.fixture(scope="module")
def flower() -> Iterator[httpx.Client]:
    with processes() as desk:
        port = free_port()
        desk.desk("flower", "flower", "--port", str(port))
        wait_for(lambda: listens(port), "Flower listens")
        login = ("desk", flower_path(desk.home).read_text().strip())
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, auth=login) as client:
            yield client


def test_a_stranger_and_another_host_are_refused(flower: httpx.Client) -> None:
    assert httpx.get(f"{flower.base_url}/workers", timeout=PATIENCE).status_code == 401
    assert flower.get("/workers", headers={"Host": "evil.example"}).status_code == 403
    assert flower.get("/metrics", headers={"Host": "flower:5555"}).status_code == 200


def test_the_api_is_closed(flower: httpx.Client) -> None:
    assert flower.get("/api/tasks").status_code == 403
