"""What the app-server may ask besides tool calls, and the answers, in the protocol's words.

The desk's models have no shell, no files and no permissions to gain, so that a request is a surprise. A role may be
allowed to ask a person for some of it; its threads are given the tools to ask with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.codex.spec import ApprovalKind

Params = dict[str, Any]
Key = str | tuple[str, str, str]

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
# A command gets no terminal: once it runs, what is typed into one is not always asked about.
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


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What is asked. detail: all that a person has to see of it. approval_id: only some requests have one."""

    kind: ApprovalKind
    thread_id: str
    turn_id: str
    item_id: str
    approval_id: str | None
    detail: Params

    @property
    def key(self) -> Key:
        """What tells it from every other open request: several with ids of their own may belong to one item."""
        return self.approval_id if self.approval_id is not None else (self.thread_id, self.turn_id, self.item_id)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word. answers: to questions, by question id."""

    approved: bool
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)


NO = Decision(approved=False)


def thread_settings(approvals: frozenset[ApprovalKind]) -> Params:
    """What a thread is started, resumed or forked with, so that its model can ask for these and nothing else.

    Of the policies, `untrusted` asks for every command, harmless ones too. One that was approved runs in the sandbox,
    where it can write to its own folder, and once more outside when the sandbox seems to have been in its way.
    """
    config = {key: value for kind in sorted(approvals) for key, value in _TOOLS[kind].items()}
    asks = {"config": config} if config else {}
    if needs_environment(approvals):
        return {"sandbox": "workspace-write", "approvalPolicy": "untrusted", **asks}
    return {"sandbox": "read-only", "approvalPolicy": "never", **asks}


def needs_environment(approvals: frozenset[ApprovalKind]) -> bool:
    """Whether the model gets a place to run commands in."""
    return bool(approvals - {"user_input"})


def declined(method: str) -> Params | None:
    """The refusal of an approval request; None when the method is no approval request."""
    found = DECLINED.get(method)
    return dict(found) if found is not None else None


def read_request(method: str, params: Mapping[str, Any], item: Mapping[str, Any] | None) -> ApprovalRequest:
    """The request that the app-server's words stand for. item: the item it belongs to, if that has begun."""
    kind = KINDS[method]
    return ApprovalRequest(
        kind=kind,
        thread_id=str(params["threadId"]),
        turn_id=str(params["turnId"]),
        item_id=str(params["itemId"]),
        approval_id=None if params.get("approvalId") is None else str(params["approvalId"]),
        detail=_DETAILS[kind](params, item or {}),
    )


def answer_to(request: ApprovalRequest, decision: Decision) -> Params:
    """A decision in the protocol's words. What is granted is what was asked for, for this one time or turn."""
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
