"""`desk mcp --http`: the SDK's client, the guard of the service around it, and limits of what it takes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tasks import named_tokens
from chordesk.tasks.named_tokens import Scope
from chordesk.tasks.web.mcp.http import address_of
from tests.databases import make_database
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.web.mcp.kit import Listening, asked_by_second, over_http, payload

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory, sdk: dict[str, str]) -> Iterator[Listening]:
    """It listens on loopback, and a signal ends it. Once with each major of the SDK."""
    home = tmp_path_factory.mktemp("mcp")
    make_database(f"sqlite:///{home / 'desk.db'}")
    with over_http(home, DESK_REPLAY_DATE="2010-03-10", **sdk) as found:
        assert found.url.startswith("http://127.0.0.1:")
        yield found
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(PATIENCE) == 128 + signal.SIGTERM


@pytest.mark.process
async def test_two_clients_call_tools_at_once(listening: Listening) -> None:
    async def overview(name: str) -> str:
        async with listening.session() as session:
            result = payload(await session.call_tool("company_get", {"symbols": [name]}))
            assert result["asOf"].startswith("2010-03-10")
            return str(result["companies"][0]["symbol"])

    assert await asyncio.gather(overview("IBM"), overview("KO")) == ["IBM", "KO"]


@pytest.mark.process
def test_a_client_of_the_second_major_is_answered_alike(listening: Listening, second: dict[str, str]) -> None:
    found = asked_by_second(listening.home, second, listening.url, listening.token)
    assert found["protocol"] >= "2025-11-25"


@pytest.mark.process
async def test_a_named_token_reads_until_it_is_revoked(listening: Listening) -> None:
    settings = Settings(home=listening.home)
    with closing(Store(settings.database)) as store:
        with store.session() as session:
            named = replace(listening, token=named_tokens.add(session, settings, "Ann's agent", [Scope.READ], "ann"))
        async with named.session() as asking:
            assert payload(await asking.call_tool("company_get", {"symbols": ["IBM"]}))["companies"]
        wait_for(lambda: 'by="Ann\'s agent"' in listening.log.read_text(encoding="utf-8"), "the call is in the log")
        with store.session() as session:
            named_tokens.revoke(session, settings, "Ann's agent", "ann")
        wait_for(lambda: named.post(PING).status_code == 401, "it is refused")


@pytest.mark.process
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_the_guard_of_the_service_is_around_it(listening: Listening, headers: dict[str, str], status: int) -> None:
    assert listening.post(PING, **headers).status_code == status


@pytest.mark.process
def test_bodies_that_are_no_messages_are_refused(listening: Listening) -> None:
    for body in (b"", b"{", b"[]", {"jsonrpc": "1.0"}):
        assert listening.post(body).status_code == 400, body
    for body in (
        b"\xff", b'{"a": "\xe9"}', b'"\xed\xa0\x80"', '{"a": 1}'.encode("utf-16"), b'{"a": "\xe2\x82', b"[" * 60_000,
        b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}',
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}',
    ):  # fmt: skip
        assert listening.post(body).status_code == 400, body
    assert listening.post(b"[" * 2_000_000).status_code == 413
    assert listening.post(PING).json()["result"] == {}


def test_an_address_is_a_port_or_a_host_and_a_port() -> None:
    assert address_of("8765") == ("127.0.0.1", 8765)
    assert address_of(":0") == ("127.0.0.1", 0)
    assert address_of("desk.example:80") == ("desk.example", 80)
    assert address_of("[::1]:80") == ("::1", 80)
    for wrong in ("", "host", "host:", "host:65536", "a:b:1", "http://h:1", "1 2"):
        with pytest.raises(UsageError, match="give PORT or HOST:PORT"):
            address_of(wrong)
