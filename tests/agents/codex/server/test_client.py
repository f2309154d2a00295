"""The client against a scripted far side: everything the real binary does not do on demand."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from chordesk.agents.codex.protocol import Client, declined, last_error
from chordesk.models.errors import BinaryMissing, ProcessDied, RpcTimeout
from tests.agents.codex.kit import run
from tests.patience import PATIENCE

FAR_SIDE = Path(__file__).parents[3] / "fakes" / "app_server.py"


class ScriptedServer:
    """A client and what it reported."""

    def __init__(self, *argv: str, seconds: float = PATIENCE) -> None:
        self.notified: list[str] = []
        self.deaths: list[ProcessDied] = []
        self.client = Client(
            argv, {}, "/",
            on_notification=lambda method, _params: self.notified.append(method),
            on_request=self.answer, on_death=self.deaths.append, rpc_seconds=seconds, rpcs=64,
        )  # fmt: skip

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "raise":
            raise ValueError("no such luck")
        return {"served": params} if method == "item/tool/call" else declined(method)


async def started(mode: str, seconds: float = PATIENCE) -> ScriptedServer:
    made = ScriptedServer(sys.executable, "-S", str(FAR_SIDE), mode, seconds=seconds)
    answer = await made.client.start(["item/started"])
    assert answer["capabilities"] == {"experimentalApi": True, "optOutNotificationMethods": ["item/started"]}
    return made


def test_an_unanswered_request_times_out() -> None:
    async def work() -> None:
        made = await started("silent")
        with pytest.raises(RpcTimeout, match=r"thread/start was not answered within 0.3 s"):
            await made.client.request("thread/start", {}, 0.3)
        await made.client.close(1)

    run(work())


def test_an_overloaded_server_is_asked_again() -> None:
    async def work() -> None:
        made = await started("overloaded")
        assert await made.client.request("thread/start", {}) == {"attempts": 3}
        await made.client.close(1)

    run(work())


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("item/tool/call", {"result": {"served": {"a": 1}}}),
        ("item/commandExecution/requestApproval", {"result": {"decision": "decline"}}),
        ("item/fileChange/requestApproval", {"result": {"decision": "decline"}}),
        ("mcpServer/elicitation/request", {"result": {"action": "decline", "content": None}}),
        ("item/permissions/requestApproval", {"result": {"permissions": {}, "scope": "turn"}}),
        ("never/heard/of", {"error": {"code": -32601, "message": "never/heard/of is not served by this client"}}),
        ("raise", {"error": {"code": -32603, "message": "raise: no such luck"}}),
    ],
)
def test_server_requests(method: str, expected: dict[str, Any]) -> None:
    async def work() -> None:
        made = await started("asks")
        answer = await made.client.request("go", {"method": method, "params": {"a": 1}})
        assert answer["reply"] == {"id": "ask-2", **expected}
        await made.client.close(1)

    run(work())


def test_no_text_has_a_nul() -> None:
    """Postgres takes none, wherever in a row it is."""

    async def work() -> None:
        made = await started("asks")
        answer = await made.client.request("go", {"method": "item/tool/call", "params": {"a": "one\0two"}})
        assert answer["reply"]["result"] == {"served": {"a": "one\ufffdtwo"}}
        await made.client.close(1)

    run(work())


def test_noise_is_passed_over() -> None:
    async def work() -> None:
        made = await started("noisy")
        answer = await made.client.request("thread/list", {})
        assert len(answer["long"]) == 3_000_000
        assert made.notified == ["never/heard/of"]
        await made.client.close(1)

    run(work())


def test_a_process_that_ends_fails_every_waiter_at_once_with_the_reason() -> None:
    async def work() -> None:
        made = await started("crashing", seconds=30)
        waiting = [made.client.request("thread/start", {}) for _ in range(10)]
        ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE)
        assert all(isinstance(error, ProcessDied) for error in ended)
        assert "exited with code 3" in str(ended[0])
        assert "the disk is full" in str(ended[0])
        assert len(made.deaths) == 1
        with pytest.raises(ProcessDied):
            await made.client.request("thread/start", {})
        await made.client.close(1)

    run(work())


def test_close_kills_a_process_that_will_not_end() -> None:
    async def work() -> None:
        made = await started("stubborn")
        made.client.post("sleep", {})
        pid = made.client.pid
        await asyncio.sleep(0.2)
        await made.client.close(0.3)
        assert not psutil.pid_exists(pid)

    run(work())


def test_a_missing_binary_is_named() -> None:
    async def work() -> None:
        with pytest.raises(BinaryMissing, match=r"cannot run the Codex binary /no/such/codex"):
            await ScriptedServer("/no/such/codex").client.start([])

    run(work())


def test_the_reason_of_a_death_is_its_error_and_no_warning_of_the_start() -> None:
    warning = "\x1b[2m2026-11-20T10:00:00.1Z\x1b[0m \x1b[33m WARN\x1b[0m codex_core: no project configuration"
    panic = "thread 'main' panicked at core/src/lib.rs:10"
    error = "\x1b[2m2026-11-20T10:00:01.1Z\x1b[0m \x1b[31mERROR\x1b[0m codex_core: disk full"
    assert last_error([warning]) is None
    assert last_error([warning, error, warning]) == "ERROR codex_core: disk full"
    assert last_error([error, panic, "note: run with RUST_BACKTRACE=1"]) == panic
