"""Requests to the model, for every role: the role's own tools, name for name, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chordesk.agents.roles import ROLES
from chordesk.tools.registry import ToolAnswer, ToolSpec, failed
from tests.agents.codex.kit import Codex, one_turn, spec
from tests.fakes.responses import FakeResponses


class Offered:
    """A role's tools as they are; they are not called here."""

    def __init__(self, key: str) -> None:
        self.tools = ROLES[key].tools

    def specs(self) -> Sequence[ToolSpec]:
        return self.tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        return failed(name, f"unexpected call with {dict(arguments)}")


async def test_each_roles_tools_on_the_wire(model: FakeResponses, codex: Codex) -> None:
    async with codex() as runtime:
        for key, role in ROLES.items():
            await one_turn(runtime, replace(spec(keep=role.keeps_thread, subject=key), role=key, tools=Offered(key)))
    for seen, role in zip(model.calls(), ROLES.values(), strict=True):
        assert seen.tools == [tool.name for tool in role.tools]
        assert "orders_submit" not in seen.tools
        for sent, tool in zip(seen.body["tools"], role.tools, strict=True):
            assert set(sent["parameters"].get("properties", {})) == set(tool.input_schema.get("properties", {}))
