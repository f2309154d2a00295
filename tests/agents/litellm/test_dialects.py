"""The dialects of servers, as the library passes them on: each call is the call that was made."""

from __future__ import annotations

from tests.agents.codex.kit import FINAL, Kit, run
from tests.agents.litellm.kit import LOCAL, one_turn, running, spec
from tests.fakes.dialects import GIVENS, NAMES, ROGUE, TEXTS, given, named, written
from tests.fakes.local_server import LocalServer, Says


def test_a_call_in_any_dialect_is_that_call_and_what_names_no_tool_is_rogue(server: LocalServer) -> None:
    wrong = {}
    replies = [*map(named, NAMES), *map(given, GIVENS), *map(written, TEXTS)]
    expected = [(reply, [("quotes_get", {"symbols": ["ACME"]})], []) for reply in replies]
    expected += [(reply, [], rogue) for reply, rogue in ROGUE.values()]

    async def work() -> None:
        async with running() as runtime:
            for reply, calls, rogue in expected:
                tools = Kit()
                server.script(reply, Says(FINAL))
                result = await one_turn(runtime, spec(tools, LOCAL))
                if (tools.calls, [name for name, _ in tools.rogue], result.text) != (calls, rogue, FINAL):
                    wrong[str(reply)] = (tools.calls, tools.rogue, result)
                read = ("quotes_get" in result.way or "in the text" in result.way) if result.way else False
                assert not calls or read, (reply, result.way)

    run(work())
    assert wrong == {}
