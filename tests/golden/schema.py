"""The parts of the app-server's protocol that the desk rests on, taken out of the schema that the binary prints.

`python -m tests.golden.schema` writes them to schema.json; read the difference before you commit it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import codex_cli_bin

from chordesk.agents.codex.protocol import DECLINED

FILE = Path(__file__).parent / "schema.json"
WHOLE = "codex_app_server_protocol.schemas.json"
SECONDS = 60

_COMMON = ("model", "modelProvider", "baseInstructions", "sandbox", "approvalPolicy", "config", "cwd")
# What we send, by the names of its fields. One that the binary comes to require, and we do not send, is a difference.
SENT: Mapping[str, Sequence[str]] = {
    "InitializeParams": ("clientInfo", "capabilities"),
    "InitializeCapabilities": ("experimentalApi", "optOutNotificationMethods"),
    "ThreadStartParams": (*_COMMON, "dynamicTools", "environments", "ephemeral", "historyMode"),
    "ThreadResumeParams": (*_COMMON, "threadId", "excludeTurns"),
    "ThreadForkParams": (*_COMMON, "threadId", "lastTurnId", "beforeTurnId", "excludeTurns", "path"),
    "ThreadUnsubscribeParams": ("threadId",),
    "ThreadLoadedListParams": (),
    "ServerDiagnosticsParams": (),
    "TurnStartParams": ("threadId", "input", "outputSchema", "responsesapiClientMetadata"),
    "TurnInterruptParams": ("threadId", "turnId"),
    "DynamicToolCallResponse": ("success", "contentItems"),
    "CommandExecutionRequestApprovalResponse": ("decision",),
    "FileChangeRequestApprovalResponse": ("decision",),
    "PermissionsRequestApprovalResponse": ("permissions", "scope"),
    "ToolRequestUserInputResponse": ("answers",),
    "ToolRequestUserInputAnswer": ("answers",),
    "McpServerElicitationRequestResponse": ("action", "content"),
    "ApplyPatchApprovalResponse": ("decision",),
    "ExecCommandApprovalResponse": ("decision",),
}
# What we read. Its other fields may come and go.
READ: Mapping[str, Sequence[str]] = {
    "ThreadStartResponse": ("thread",),
    "ThreadResumeResponse": ("thread",),
    "ThreadForkResponse": ("thread",),
    "ThreadLoadedListResponse": ("data",),
    "TurnStartResponse": ("turn",),
    "Thread": ("id", "path"),
    "Turn": ("id", "status", "error", "durationMs"),
    "TurnError": ("message", "codexErrorInfo", "additionalDetails"),
    "TurnStartedNotification": ("threadId", "turn"),
    "TurnCompletedNotification": ("threadId", "turn"),
    "ErrorNotification": ("threadId", "turnId", "error", "willRetry"),
    "ItemStartedNotification": ("threadId", "turnId", "item", "startedAtMs"),
    "ItemCompletedNotification": ("threadId", "turnId", "item", "completedAtMs"),
    "AgentMessageDeltaNotification": ("threadId", "turnId", "itemId", "delta"),
    "ReasoningSummaryTextDeltaNotification": ("threadId", "turnId", "itemId", "delta"),
    "ThreadTokenUsageUpdatedNotification": ("threadId", "turnId", "tokenUsage"),
    "ThreadTokenUsage": ("last",),
    "TokenUsageBreakdown": (
        "inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens", "totalTokens",
    ),
    "DynamicToolCallParams": ("threadId", "turnId", "callId", "tool", "arguments"),
    "CommandExecutionRequestApprovalParams": (
        "threadId", "turnId", "itemId", "approvalId", "kind", "command", "cwd", "reason", "additionalPermissions",
        "networkApprovalContext",
    ),
    "FileChangeRequestApprovalParams": ("threadId", "turnId", "itemId", "reason", "grantRoot"),
    "PermissionsRequestApprovalParams": ("threadId", "turnId", "itemId", "permissions", "cwd", "reason"),
    "ToolRequestUserInputParams": ("threadId", "turnId", "itemId", "questions"),
    "ToolRequestUserInputQuestion": ("id", "header", "question", "options", "isOther", "isSecret"),
    "ToolRequestUserInputOption": ("label",),
    "FileUpdateChange": ("path", "kind", "diff"),
}  # fmt: skip
# Of the items, by their type.
ITEMS: Mapping[str, Sequence[str]] = {
    "userMessage": ("id", "content"),
    "agentMessage": ("id", "text"),
    "plan": ("id", "text"),
    "reasoning": ("id", "summary"),
    "dynamicToolCall": ("id", "tool", "arguments", "status", "contentItems", "success", "durationMs"),
    "commandExecution": ("id", "command", "status", "exitCode", "durationMs"),
    "fileChange": ("id", "changes", "status"),
}
# Types of which every value counts.
VALUES = (
    "TurnStatus", "CodexErrorInfo", "AskForApproval", "SandboxMode", "ThreadHistoryMode", "DynamicToolSpec",
    "DynamicToolCallStatus", "DynamicToolCallOutputContentItem", "CommandExecutionStatus", "PatchApplyStatus",
    "PatchChangeKind", "CommandExecutionApprovalDecision", "CommandExecutionApprovalKind", "FileChangeApprovalDecision",
    "PermissionGrantScope", "GrantedPermissionProfile", "McpServerElicitationAction", "ReviewDecision",
)  # fmt: skip
CALLED = (
    "initialize", "server/diagnostics", "thread/start", "thread/resume", "thread/fork", "thread/unsubscribe",
    "thread/loaded/list", "turn/start", "turn/interrupt",
)  # fmt: skip
EXPLAINS = frozenset({"description", "title", "$schema"})
ASKED = (*DECLINED, "item/tool/call")


def printed(binary: Path | None = None) -> dict[str, Any]:
    """The schema of a binary, the installed one by default, every definition by its name."""
    with tempfile.TemporaryDirectory() as folder:
        given = str(binary or codex_cli_bin.bundled_codex_path())
        command = [given, "app-server", "generate-json-schema", "--experimental"]
        environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "CODEX_HOME": folder}
        subprocess.run(
            [*command, "--out", folder], check=True, capture_output=True, timeout=SECONDS, env=environment, cwd=folder
        )
        found: dict[str, Any] = json.loads(Path(folder, WHOLE).read_text(encoding="utf-8"))
    definitions: dict[str, Any] = found["definitions"]
    return {**definitions, **definitions.pop("v2")}


def extract(definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The used parts; one that is missing is null, so that it shows as a difference."""
    items = {one["properties"]["type"]["enum"][0]: one for one in definitions["ThreadItem"]["oneOf"]}
    return {
        "calls": {name: _params(definitions["ClientRequest"], name) for name in CALLED},
        "requests": {name: _params(definitions["ServerRequest"], name) for name in ASKED},
        # All of them: a new one costs time in each turn until we opt out of it.
        "notifications": dict(_methods(definitions["ServerNotification"])),
        "sent": {name: _sent(definitions.get(name), fields) for name, fields in SENT.items()},
        "read": {name: _read(definitions.get(name), fields) for name, fields in READ.items()},
        "items": {name: _read(items.get(name), fields) for name, fields in ITEMS.items()},
        "values": {name: sorted(_variants(definitions.get(name) or {})) for name in VALUES},
    }


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """One line for each part that is not what it was."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            yield from differences(before.get(name), now.get(name), f"{where}/{name}")
    elif isinstance(before, list) and isinstance(now, list):
        yield from (f"{where}: lost {one}" for one in before if one not in now)
        yield from (f"{where}: has {one} too" for one in now if one not in before)
    elif before != now:
        yield f"{where}: was {before}, is {now}"


def _methods(requests: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for one in requests["oneOf"]:
        yield one["properties"]["method"]["enum"][0], one["properties"].get("params", {}).get("$ref")


def _params(requests: Mapping[str, Any], method: str) -> str | None:
    return dict(_methods(requests)).get(method)


def _sent(definition: Mapping[str, Any] | None, fields: Sequence[str]) -> Any:
    if definition is None:
        return None
    unsent = sorted(name for name in definition.get("required", ()) if name not in fields)
    return {**_read(definition, fields), **({"requires too": unsent} if unsent else {})}


def _read(definition: Mapping[str, Any] | None, fields: Sequence[str]) -> Any:
    if definition is None:
        return None
    given, required = definition.get("properties", {}), definition.get("required", ())
    return {name: _field(given.get(name), name in required) for name in fields}


def _field(value: Any, required: bool) -> str | None:
    return None if value is None else ("required " if required else "optional ") + _line(value)


def _variants(definition: Mapping[str, Any]) -> Iterator[str]:
    """Every value of a type, or every shape of it."""
    for one in definition.get("oneOf") or definition.get("anyOf") or [definition]:
        if "enum" in one:
            yield from one["enum"]
        else:
            yield _line(one)


def _line(value: Any) -> str:
    return json.dumps(_bare(value), sort_keys=True)


def _bare(value: Any) -> Any:
    """A schema without what only explains it."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if not (name in EXPLAINS and isinstance(inner, str))}
        return {name: _bare(inner) for name, inner in kept.items()}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    FILE.write_text(json.dumps(extract(printed()), indent=1, sort_keys=True) + "\n", encoding="utf-8")
