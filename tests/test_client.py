"""chordesk.client: a program starts a run, follows it and reads its result, beside a desk and through its service."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator

import pytest

from chordesk.client import Client
from chordesk.models.errors import DeskError
from tests.stack import Processes
from tests.tasks.web.kit import Service, service

# What programs of others may rely on; docs/client.md says so.
PUBLIC = {
    "chordesk.client": {"Client", "DeskError"},
    "chordesk.langchain": {"ChatCodex", "ChatError", "close_bridges", "desk_tools"},
}


@pytest.mark.parametrize("module", [*PUBLIC, "chordesk.plugins"])
def test_the_public_surface_is_there(module: str) -> None:
    found = importlib.import_module(module)
    assert set(found.__all__) >= PUBLIC.get(module, {"Feature", "ToolSpec", "MarketData", "Broker", "Workflow"})
    assert all(hasattr(found, name) for name in found.__all__)


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as found:
        desk: Processes = found.processes
        desk.rulebook()
        desk.workers("research", "ops", concurrency=4)
        yield found


def local(running: Service, monkeypatch: pytest.MonkeyPatch) -> Client:
    for name in [name for name in os.environ if name.startswith("DESK_")]:
        monkeypatch.delenv(name)
    for name, value in running.processes.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(running.processes.home)
    return Client.local(by="a test")


def http(running: Service, monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client.http(running.url, running.token, by="a test")


@pytest.mark.process
@pytest.mark.parametrize("made", [local, http])
def test_a_run_is_started_followed_and_read(
    made: Callable[[Service, pytest.MonkeyPatch], Client], running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = made(running, monkeypatch)
    run = client.start("research", symbols=["AAPL"])
    events = list(client.follow(run))
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert "run.completed" in {event["type"] for event in events}
    assert list(client.follow(run, since=len(events))) == []
    result = client.result(run)
    assert result["progress"]["state"] == "done"
    assert [row["symbol"] for row in result["candidates"]] == ["AAPL"]


@pytest.mark.process
@pytest.mark.parametrize("made", [local, http])
def test_a_wrong_request_has_its_reason_and_a_remedy(
    made: Callable[[Service, pytest.MonkeyPatch], Client], running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = made(running, monkeypatch)
    with pytest.raises(DeskError, match="symbols") as refused:
        client.start("research", symbols=["no symbol"])
    assert refused.value.remedy
    with pytest.raises(DeskError, match="nope") as refused:
        client.result("nope")
    assert refused.value.remedy


@pytest.mark.process
def test_a_service_that_is_not_there_or_takes_no_such_token(running: Service) -> None:
    with pytest.raises(DeskError, match="token"):
        Client.http(running.url, "another-token-than-its").result("x")
    with pytest.raises(DeskError, match="does not answer"):
        Client.http("http://127.0.0.1:1", running.token).result("x")
    with pytest.raises(DeskError, match="not the URL"):
        Client.http("127.0.0.1:1", running.token)
