"""A Redis that vanishes without a goodbye: connections stay open and say nothing. Every process of a desk finds it and
goes on with a new connection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import httpx
import pytest
import redis

from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.events import deltas
from chordesk.tasks.schedules import DUE
from chordesk.tasks.worker.app import node_name
from chordesk.tasks.worker.messages import REPORTS_PASS, request_pass
from chordesk.tasks.workflows.research import open_research
from tests.ordeal.proxy import SilentProxy
from tests.patience import PATIENCE
from tests.stack import Processes, free_port, listens, processes, wait_for

pytestmark = pytest.mark.process
ROLES = ("research", "ops", "trade")


@pytest.fixture(scope="module")
def flower() -> int:
    return free_port()


@pytest.fixture(scope="module")
def silenced(flower: int) -> Iterator[Processes]:
    with ExitStack() as held, processes(DESK_MESSAGE_KEY="0123456789abcdef" * 2) as desk:  # its Redis is at an address
        direct = desk.environ["DESK_REDIS_URL"]
        proxy = SilentProxy(direct.removeprefix("unix://"))
        held.callback(proxy.close)  # once the desk has ended
        desk.rulebook()
        desk.environ["DESK_REDIS_URL"] = proxy.url
        desk.workers(*ROLES)
        desk.desk("beat", "beat")
        desk.desk("flower", "flower", "--port", str(flower))
        wait_for(lambda: heard(desk, flower) > 0, "Flower hears the workers")
        with redis.Redis.from_url(direct) as client:
            wait_for(lambda: client.exists(DUE) == 1, "beat has written its schedule")
        desk.environ["DESK_REDIS_URL"] = direct  # of this test alone
        assert proxy.vanish() > 0
        yield desk


def heard(desk: Processes, port: int) -> float:
    """Return how many events of tasks Flower has counted, after one more task."""
    if not listens(port):
        return 0.0
    request_pass(desk.app, REPORTS_PASS)
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE).text
    return sum(map(float, re.findall(r"flower_events_total\{.*\} (\S+)", text)))


def test_beat_goes_on(silenced: Processes) -> None:
    with redis.Redis.from_url(silenced.environ["DESK_REDIS_URL"]) as client:
        client.delete(DUE)
        wait_for(lambda: client.exists(DUE) == 1, "beat writes its schedule again")


def test_workers_hear_and_work(silenced: Processes) -> None:
    nodes = {node_name(role) for role in ROLES}
    wait_for(lambda: {node for each in silenced.app.control.ping(timeout=1.0) for node in each} >= nodes, "they answer")
    run = open_research(silenced.app, ["IBM"])

    def state() -> str:
        with silenced.app.desk.store.read() as session:
            return session.get_one(Run, run.id).state

    wait_for(lambda: state() in RUN_FINAL, "a run ends")
    assert state() == "done"


def test_flower_hears_of_tasks_again(silenced: Processes, flower: int) -> None:
    before = heard(silenced, flower)
    wait_for(lambda: heard(silenced, flower) > before, "it hears of them")


async def test_a_listener_to_the_live_text_notices_and_ends(redis_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "ASK_SECONDS", 1)
    monkeypatch.setattr(deltas, "REDIS_SECONDS", 1)
    proxy = SilentProxy(redis_server.removeprefix("unix://"))
    server = deltas.listening_client(proxy.url)
    turns = count()

    def wanted() -> bool:
        if next(turns) == 2:  # it has answered by then
            proxy.vanish()
        return True

    with pytest.raises(redis.ConnectionError, match="silent"):
        async for _ in deltas.listen(server, wanted):
            pass
    await server.aclose()
    proxy.close()
