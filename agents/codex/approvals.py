"""What the app-server may ask of us besides a tool call: everything is declined.

The desk's models have no shell, no files and no permissions to gain, so an approval request is a surprise;
it gets the protocol's own word for no, and the turn goes on.
"""

from __future__ import annotations

from typing import Any

DECLINED: dict[str, dict[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline", "content": None},
    "applyPatchApproval": {"decision": "denied"},
    "execCommandApproval": {"decision": "denied"},
}


def declined(method: str) -> dict[str, Any] | None:
    """The refusal of an approval request; None when the method is no approval request."""
    return DECLINED.get(method)
