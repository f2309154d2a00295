"""The rules in the worker itself: the answers of the wire, and the ends of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from chordesk.agents.rulebook.server import RulesRuntime, answer
from chordesk.agents.runtime import ConversationSpec, TurnResult
from chordesk.tools.model_tools.signals import SIGNALS_GET
from chordesk.tools.registry import ToolAnswer, ToolSpec

SUBJECT = {"symbol": "IBM", "instrument": "equity", "theses": [], "memory": None}
TEXT = f"Judge it.\n```subject\n{orjson.dumps(SUBJECT).decode()}\n```"
SCHEMA = {"type": "object", "properties": {"verdict": {}, "confidence": {}, "summary": {}, "keyRisks": {}}}


class Tools:
    """Tools whose answers are fixed. seconds: that each takes."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []
        self._seconds = seconds

    def specs(self) -> Sequence[ToolSpec]:
        return (SIGNALS_GET,)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        self.called.append((name, dict(arguments)))
        await asyncio.sleep(self._seconds)
        rows = [{"symbol": "IBM", "close": 120.0, "volumeRatio": 1.1}]
        return ToolAnswer(name, True, {"available": True, "signals": rows, "missing": []}, True, True, 0.0)


def spec(tools: Tools, role: str = "quick") -> ConversationSpec:
    return ConversationSpec(role, "IBM", False, f"Role: {role}\nThe rest.", tools, "rulebook", "hash")


def run(tools: Tools, role: str = "quick", *, seconds: float = 30.0, stop: bool = False) -> TurnResult:
    async def turn() -> TurnResult:
        runtime, loop = RulesRuntime(), asyncio.get_running_loop()
        async with runtime.conversation(spec(tools, role), loop.time() + seconds) as conversation:
            if stop:
                loop.call_later(
                    0.05, lambda: runtime.interrupt(conversation.thread_id, str(conversation.running_turn_id))
                )
            return await conversation.turn(TEXT, SCHEMA, {})

    return asyncio.run(turn())


def of_the_wire(calls: list[tuple[str, dict[str, Any]]], tools: Tools) -> dict[str, Any]:
    """Return the answer of the same policy behind the wire, given the same answers of tools."""
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": TEXT}]
    for number, (name, arguments) in enumerate(calls):
        given = asyncio.run(tools.call(name, arguments))
        items.append({"type": "function_call", "call_id": str(number), "name": name})
        items.append({"type": "function_call_output", "call_id": str(number), "output": given.text()})
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    request = {
        "instructions": "Role: quick\nThe rest.",
        "input": items,
        "tools": [{"name": "signals_get"}],
        "text": form,
    }
    last = answer(orjson.dumps(request)).split(b"data: ")[-1]
    found: dict[str, Any] = orjson.loads(orjson.loads(last)["response"]["output"][0]["content"][0]["text"])
    return found


def test_a_turn_gives_what_the_wire_gives() -> None:
    tools = Tools()
    result = run(tools)
    assert (result.status, result.failure) == ("completed", None)
    assert tools.called == [("signals_get", {"symbols": ["IBM"]})]
    assert orjson.loads(result.text) == of_the_wire(tools.called, Tools())
    assert result.usage.total_tokens


def test_a_role_without_a_rule_fails_its_turn() -> None:
    result = run(Tools(), "nobody")
    assert result.status == "failed"
    assert result.failure is not None
    assert "unknown_role" in result.failure.message


def test_a_turn_can_be_interrupted_and_ends_at_its_deadline() -> None:
    interrupted, late = run(Tools(60), stop=True), run(Tools(60), seconds=0.05)
    assert (interrupted.status, late.status) == ("interrupted", "failed")
    assert late.failure is not None
    assert late.failure.kind == "timeout"
