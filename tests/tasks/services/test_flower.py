"""Flower over a real run: our task names and readable arguments on its tasks page and in its metrics."""

from __future__ import annotations

import time

import httpx
import pytest

from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.web.security import flower_path
from chordesk.tasks.workflows.research import open_research
from tests.patience import PATIENCE
from tests.stack import Processes, free_port, listens, processes, wait_for

RUNS = 3
REPORTS = {"quick IBM", "fundamentals IBM", "risk IBM", "catalyst IBM"}
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
        # An event that Flower misses while it reconnects is not sent again, and a step may have a second message: what
        # is promised is that Flower shows the steps of a run, not how many messages a run took.
        for _ in range(RUNS):
            run = open_research(desk.app, ["IBM"])
            wait_for(lambda run_id=run.id: ended(desk, run_id), "the run ends")
            if shows(client, REPORTS):
                break
        yield client
        client.close()


def shows(client: httpx.Client, reports: set[str]) -> bool:
    """Whether Flower shows and counts the reports within half a minute."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if reports <= shown(client) and counted(client) >= len(reports):
            return True
        time.sleep(0.5)
    return False


def shown(client: httpx.Client) -> set[str]:
    rows = client.get("/tasks/datatable", params=TABLE).json()["data"]
    return {row["args"].strip("()").rsplit(" ", 1)[0] for row in rows if row["name"] == "desk.report"}


def counted(client: httpx.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'task="desk.report",type="task-succeeded"' in line)


def ended(desk: Processes, run_id: str) -> bool:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run_id).state in RUN_FINAL


def test_the_tasks_page_shows_names_and_readable_arguments(flower: httpx.Client) -> None:
    assert flower.get("/tasks").status_code == 200
    assert shown(flower) == REPORTS


def test_the_metrics_count_our_tasks(flower: httpx.Client) -> None:
    assert counted(flower) >= len(REPORTS)
    assert 'task="desk.report",type="task-failed"' not in flower.get("/metrics").text


def test_a_stranger_and_another_host_are_refused(flower: httpx.Client) -> None:
    assert httpx.get(f"{flower.base_url}/workers", timeout=PATIENCE).status_code == 401
    assert flower.get("/workers", headers={"Host": "evil.example"}).status_code == 403
    assert flower.get("/metrics", headers={"Host": "flower:5555"}).status_code == 200


def test_the_api_is_closed(flower: httpx.Client) -> None:
    assert flower.get("/api/tasks").status_code == 403
