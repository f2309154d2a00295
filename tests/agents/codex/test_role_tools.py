"""Requests to the model, for every role: the role's own tools, name for name, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

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


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_a_roles_tools_on_the_wire(model: FakeResponses, codex: Codex, role: str) -> None:
    offered = Offered(role)
    wanted = replace(spec(keep=ROLES[role].keeps_thread), role=role, tools=offered)
    async with codex() as runtime:
        await one_turn(runtime, wanted)
    (seen,) = model.calls()
    assert seen.tools == [tool.name for tool in offered.tools]
    assert "orders_submit" not in seen.tools
    for sent, tool in zip(seen.body["tools"], offered.specs(), strict=True):
        assert sent["description"] == tool.description
        assert set(sent["parameters"].get("properties", {})) == set(tool.input_schema.get("properties", {}))
