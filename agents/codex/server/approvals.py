"""The app-server's requests besides tool calls, and their answers, in the protocol's terms.

By default a model has no shell, no files and no further permissions, and every such request is declined. A role that
may ask a person for a kind of them gets the tool for it in its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chordesk.agents.runtime import ApprovalDecision, ApprovalKind, ApprovalRequest

Params = dict[str, Any]

KINDS: Mapping[str, ApprovalKind] = {
    "item/commandExecution/requestApproval": "command",
    "item/fileChange/requestApproval": "file_change",
    "item/permissions/requestApproval": "permissions",
    "item/tool/requestUserInput": "user_input",
}
DECLINED: Mapping[str, Params] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline", "content": None},
    "applyPatchApproval": {"decision": {"denied": {"rejection": "the desk declines"}}},
    "execCommandApproval": {"decision": {"denied": {"rejection": "the desk declines"}}},
}
# A command gets no terminal: input typed into a running one does not always need an approval.
_SHELL = {"features.shell_tool": True, "features.unified_exec_tty": False}
_TOOLS: Mapping[ApprovalKind, Params] = {
    "command": _SHELL,
    "file_change": _SHELL,
    "permissions": {"features.request_permissions_tool": True},
    "user_input": {
        "features.default_mode_request_user_input": True,
        "tools.experimental_request_user_input": {"enabled": True},
    },
}


def thread_settings(approvals: frozenset[ApprovalKind]) -> Params:
    """Return the settings with which a thread is started, resumed or forked, so that its model can make these requests
    and no others.

    The policy `untrusted` requests every command, harmless ones too. An approved command runs in the sandbox, where it
    can write to its own folder, and again outside when the sandbox seems to have been in its way.
    """
    config = {key: value for kind in sorted(approvals) for key, value in _TOOLS[kind].items()}
    asks = {"config": config} if config else {}
    if needs_environment(approvals):
        return {"sandbox": "workspace-write", "approvalPolicy": "untrusted", **asks}
    return {"sandbox": "read-only", "approvalPolicy": "never", **asks}


def needs_environment(approvals: frozenset[ApprovalKind]) -> bool:
    """Return whether the model gets a place to run commands in."""
    return bool(approvals - {"user_input"})


def declined(method: str) -> Params | None:
    """Return the refusal of an approval request; None when the method is no approval request."""
    found = DECLINED.get(method)
    return dict(found) if found is not None else None


def read_request(method: str, params: Mapping[str, Any], item: Mapping[str, Any] | None) -> ApprovalRequest:
    """Return the request in an app-server message. item: the item it belongs to, if that has started."""
    kind = KINDS[method]
    return ApprovalRequest(
        kind=kind,
        thread_id=str(params["threadId"]),
        turn_id=str(params["turnId"]),
        item_id=str(params["itemId"]),
        approval_id=None if params.get("approvalId") is None else str(params["approvalId"]),
        detail=_DETAILS[kind](params, item or {}),
    )


def answer_to(request: ApprovalRequest, decision: ApprovalDecision) -> Params:
    """Return a decision in the protocol's terms. It grants exactly the request, for this one time or turn."""
    if request.kind == "permissions":
        granted = request.detail["permissions"] if decision.approved else {}
        return {"permissions": {name: value for name, value in granted.items() if value is not None}, "scope": "turn"}
    if request.kind == "user_input":
        given = decision.answers if decision.approved else {}
        return {"answers": {question: {"answers": list(answers)} for question, answers in given.items()}}
    return {"decision": "accept" if decision.approved else "decline"}


def _command(params: Mapping[str, Any], _item: Mapping[str, Any]) -> Params:
    return {
        "action": params.get("kind") or "command",
        "command": params.get("command"),
        "cwd": params.get("cwd"),
        "reason": params.get("reason"),
        "permissions": params.get("additionalPermissions"),
        "network": params.get("networkApprovalContext"),
    }


def _file_change(params: Mapping[str, Any], item: Mapping[str, Any]) -> Params:
    changes = [
        {"path": change["path"], "change": change["kind"].get("type"), "diff": change["diff"]}
        for change in item.get("changes") or ()
    ]
    return {"changes": changes, "reason": params.get("reason"), "root": params.get("grantRoot")}


def _permissions(params: Mapping[str, Any], _item: Mapping[str, Any]) -> Params:
    return {"permissions": params["permissions"], "cwd": params.get("cwd"), "reason": params.get("reason")}


def _user_input(params: Mapping[str, Any], _item: Mapping[str, Any]) -> Params:
    return {
        "questions": [
            {
                "id": question["id"],
                "header": question.get("header"),
                "question": question["question"],
                "options": [option["label"] for option in question.get("options") or ()],
                "other": bool(question.get("isOther")),
                "secret": bool(question.get("isSecret")),
            }
            for question in params["questions"]
        ]
    }


_DETAILS: Mapping[ApprovalKind, Callable[[Mapping[str, Any], Mapping[str, Any]], Params]] = {
    "command": _command,
    "file_change": _file_change,
    "permissions": _permissions,
    "user_input": _user_input,
}
