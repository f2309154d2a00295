"""The protocol of the installed binary: what the desk relies on is unchanged, and recorded messages fit its schema."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from chordesk.agents.codex.protocol import DECLINED, KINDS, ApprovalRouter, answer_to, read_request
from chordesk.agents.codex.servers import DELTAS, OPT_OUT
from chordesk.agents.runtime import ApprovalDecision
from tests.agents.codex.kit import ignore, until
from tests.golden import schema, wire
from tests.golden.record import stream_of
from tests.golden.scenes import SCENES
from tests.golden.stage import SCOPE, Person

FIXTURES = Path(schema.__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def definitions() -> dict[str, Any]:
    return schema.printed()


def test_the_used_parts_are_as_they_were(definitions: dict[str, Any]) -> None:
    before = json.loads(schema.FILE.read_text(encoding="utf-8"))
    found = list(schema.differences(before, schema.extract(definitions)))
    assert not found, "the protocol changed where the desk rests on it:\n" + "\n".join(found)


def test_notifications_that_are_opted_out_of_exist(definitions: dict[str, Any]) -> None:
    there = schema.extract(definitions)["notifications"]
    assert set(OPT_OUT) <= set(there)
    assert set(DELTAS) <= set(OPT_OUT)


@pytest.mark.parametrize("name", SCENES)
def test_every_recorded_message_fits_the_schema(name: str, definitions: dict[str, Any]) -> None:
    """Requests and answers of the desk, and messages of the server."""
    asked = {}
    for line in map(json.loads, stream_of(name).read_text(encoding="utf-8").splitlines()):
        ((direction, message),) = line.items()
        if message.get("method", "").startswith("rawResponse"):
            continue  # the provider's own, as it came
        if "method" not in message:
            if direction == wire.TO_SERVER:
                assert _problems(definitions, ANSWERS[asked[message["id"]]], message["result"]) == []
            continue
        if direction == wire.TO_CLIENT and "id" in message:
            asked[message["id"]] = message["method"]
        kind = {True: "Notification", False: "Request"}["id" not in message]
        side = "Client" if direction == wire.TO_SERVER else "Server"
        assert _problems(definitions, side + kind, message) == []


ANSWERS = {
    "item/tool/call": "DynamicToolCallResponse",
    "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
    "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
    "item/permissions/requestApproval": "PermissionsRequestApprovalResponse",
    "item/tool/requestUserInput": "ToolRequestUserInputResponse",
    "mcpServer/elicitation/request": "McpServerElicitationRequestResponse",
    "applyPatchApproval": "ApplyPatchApprovalResponse",
    "execCommandApproval": "ExecCommandApprovalResponse",
}


@pytest.mark.parametrize("method", DECLINED)
def test_a_refusal_fits_the_schema(method: str, definitions: dict[str, Any]) -> None:
    assert _problems(definitions, ANSWERS[method], DECLINED[method]) == []
    assert _problems(definitions, ANSWERS[method], {"unknown": 1}) != []


async def test_approvals_of_one_item_are_distinguished_by_their_ids(definitions: dict[str, Any]) -> None:
    """Two commands within one, each with an id of its own: both are asked at once and get their own answers. The same
    one again joins the question that is open."""
    method = "item/commandExecution/requestApproval"
    first, second = json.loads((FIXTURES / "subcommand_approvals.json").read_text(encoding="utf-8"))
    for params in (first, second):
        assert _problems(definitions, "CommandExecutionRequestApprovalParams", params) == []
        for approved in (True, False):
            answer = answer_to(read_request(method, params, None), ApprovalDecision(approved))
            assert _problems(definitions, ANSWERS[method], answer) == []
    assert read_request(method, first, None).key == first["approvalId"]
    assert read_request(method, {**first, "approvalId": None}, None).key == ("id-1", "id-2", "call-1")
    person = Slowly()
    router = ApprovalRouter(SCOPE, frozenset({KINDS[method]}), person, ignore)
    asking = [asyncio.create_task(router.route(method, params, None, 30)) for params in (first, second, first)]
    await until(lambda: len(person.asked) == 2)
    person.answers["rm notes.txt"].set_result(ApprovalDecision(approved=False))
    person.answers["touch notes.txt"].set_result(ApprovalDecision(approved=True))
    assert await asyncio.gather(*asking) == [
        {"decision": "accept"}, {"decision": "decline"}, {"decision": "accept"},
    ]  # fmt: skip
    assert len(person.asked) == 2


class Slowly(Person):
    """Asker that answers each command when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.answers = {command: loop.create_future() for command in ("touch notes.txt", "rm notes.txt")}

    async def ask(self, request: Any, scope: Any, seconds: float) -> ApprovalDecision:
        await super().ask(request, scope, seconds)
        decision: ApprovalDecision = await self.answers[request.detail["command"]]
        return decision


def _problems(definitions: dict[str, Any], name: str, value: Any) -> list[str]:
    # Definitions refer to each other as they stand in the file, those of the newer protocol one level deeper.
    root = {"$ref": f"#/definitions/{name}", "definitions": {**definitions, "v2": definitions}}
    return [error.message for error in jsonschema.Draft7Validator(root).iter_errors(value)]
