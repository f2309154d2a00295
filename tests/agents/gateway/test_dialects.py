"""Dialects of servers: each call is the call that was made, and what names no tool of the turn stays on record."""

from __future__ import annotations

from pathlib import Path

from tests.agents.codex.kit import FINAL, Kit, one_turn, spec
from tests.agents.gateway.kit import NoTools, asks, endpoint, local
from tests.fakes.dialects import ANSWERING, ASKING, BOTH, GIVEN, GIVENS, NAMES, ROGUE, TEXTS, TOOL
from tests.fakes.local_server import LocalServer, Says
from tests.fakes.responses import Call, FakeResponses, Text


async def test_a_call_in_any_dialect_is_that_call(server: LocalServer, tmp_path: Path, registry: str) -> None:
    """Two calls may be answered in either order."""
    wanted = {**{name: ["ACME"] for name in ASKING}, **{name: ["ACME", "IBM"] for name in BOTH}}
    wrong = {}
    async with local(server, tmp_path, registry) as runtime:
        for name, reply in {**ASKING, **BOTH}.items():
            tools = Kit()
            server.script(reply, Says(FINAL))
            result = await one_turn(runtime, asks(tools=tools))
            symbols = sorted(symbol for _, arguments in tools.calls for symbol in arguments["symbols"])
            found = (result.text, symbols, [call.tool for call in result.rogue])
            if found != (FINAL, wanted[name], []):
                wrong[name] = (found, result.failure)
            if name in ("functions", "one symbol as text", "bare JSON"):
                assert result.way is not None
                assert "quotes_get" in result.way or "bare JSON" in result.way, name
    assert wrong == {}


async def test_a_call_in_any_dialect_of_an_endpoint_is_that_call(tmp_path: Path, registry: str) -> None:
    """Of a Responses API, which the gateway passes on."""
    wrong = {}
    with FakeResponses() as served:
        async with endpoint(served, tmp_path, registry, provider_key="sk-0123456789") as runtime:
            made = [*(Call(name, GIVEN) for name in NAMES), *(Call(TOOL, text) for text in GIVENS), *map(Text, TEXTS)]
            rogue = [Call(f"orders.{TOOL}", GIVEN), Call("order_submit_0"), Call(TOOL, GIVEN + GIVEN.replace("A", "B"))]
            for reply in (*made, *rogue):
                tools = Kit()
                served.script(reply, Text(FINAL))
                result = await one_turn(runtime, spec(tools))
                names = [call.tool for call in result.rogue]
                wanted = ([], [reply.name]) if reply in rogue else ([(TOOL, {"symbols": ["ACME"]})], [])
                if (tools.calls, names) != wanted or result.text != FINAL or (reply in made and not result.way):
                    wrong[str(reply)] = (tools.calls, names, result)
    assert wrong == {}


async def test_an_answer_in_any_dialect_is_that_answer(server: LocalServer, tmp_path: Path, registry: str) -> None:
    async with local(server, tmp_path, registry) as runtime:
        for name, reply in ANSWERING.items():
            server.requests.clear()
            server.script(reply)
            result = await one_turn(runtime, asks(tools=NoTools()))
            assert (result.text, result.failure, len(server.chats())) == (FINAL, None, 1), name
        server.script(Says("", reasoning="I wonder."))
        failure = (await one_turn(runtime, asks(tools=NoTools()))).failure
        assert failure is not None
        assert "reasoning alone" in failure.message
        server.script(Says("", finish="content_filter"))
        assert "content filter" in str((await one_turn(runtime, asks(tools=NoTools()))).refusal)


async def test_what_names_no_tool_of_the_turn_is_rogue(server: LocalServer, tmp_path: Path, registry: str) -> None:
    async with local(server, tmp_path, registry) as runtime:
        for name, (reply, rogue) in ROGUE.items():
            tools = Kit()
            server.script(reply, Says(FINAL))
            result = await one_turn(runtime, asks(tools=tools))
            assert (result.text, tools.calls, [call.tool for call in result.rogue]) == (FINAL, [], rogue), name
