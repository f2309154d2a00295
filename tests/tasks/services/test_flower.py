"""Flower over a real run: our task names and readable arguments on its tasks page and in its metrics."""

from __future__ import annotations

import httpx
import pytest

from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.web.security import flower_path
from chordesk.tasks.workflows.research import open_research
from tests.patience import PATIENCE
from tests.stack import Processes, free_port, listens, processes, wait_for

TABLE = {
    "draw": 1,
    "start": 0,
    "length": 50,
    "search[value]": "",
    "order[0][column]": 0,
    "order[0][dir]": "asc",
    "columns[0][data]": "name",
}


@pytest.fixture(scope="module")
def flower() -> object:
    with processes() as desk:
        desk.rulebook()
        desk.workers("research", "ops")
        port = free_port()
        desk.desk("flower", "flower", "--port", str(port))
        wait_for(lambda: listens(port), "Flower listens")
        login = ("desk", flower_path(desk.home).read_text().strip())
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, auth=login)
        wait_for(lambda: "flower_worker_online" in client.get("/metrics").text, "Flower sees the workers")
        run = open_research(desk.app, ["IBM"])
        wait_for(lambda: ended(desk, run.id), "the run ends")
        yield client
        client.close()


def ended(desk: Processes, run_id: str) -> bool:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run_id).state in RUN_FINAL


def tasks(client: httpx.Client) -> list[dict[str, str]]:
    return list(client.get("/tasks/datatable", params=TABLE).json()["data"])


def test_the_tasks_page_shows_names_and_readable_arguments(flower: httpx.Client) -> None:
    assert flower.get("/tasks").status_code == 200
    wait_for(lambda: sum(row["name"] == "desk.report" for row in tasks(flower)) == 4, "four reports are shown")
    shown = {row["args"].strip("()").rsplit(" ", 1)[0] for row in tasks(flower) if row["name"] == "desk.report"}
    assert shown == {"quick IBM", "fundamentals IBM", "risk IBM", "catalyst IBM"}


def test_the_metrics_count_our_tasks(flower: httpx.Client) -> None:
    def counted() -> bool:
        lines = flower.get("/metrics").text.splitlines()
        return any('task="desk.report",type="task-succeeded"' in line and line.endswith(" 4.0") for line in lines)

    wait_for(counted, "four reports are counted")
    assert 'task="desk.report",type="task-failed"' not in flower.get("/metrics").text


def test_a_stranger_and_another_host_are_refused(flower: httpx.Client) -> None:
    assert httpx.get(f"{flower.base_url}/workers", timeout=PATIENCE).status_code == 401
    assert flower.get("/workers", headers={"Host": "evil.example"}).status_code == 403
    assert flower.get("/metrics", headers={"Host": "flower:5555"}).status_code == 200


def test_the_api_is_closed(flower: httpx.Client) -> None:
    assert flower.get("/api/tasks").status_code == 403
