"""What a conversation is about, and the thread that was opened for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from models.events import DESK
from models.modes import Mode
from tools.registry import Toolset

Opening = Literal["same", "fresh", "fork"]
ApprovalKind = Literal["command", "file_change", "permissions", "user_input"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose work a conversation is: what everything told of it is filed under. subject: the step's own, not the
    thread's. A conversation outside any run is the desk's."""

    run_id: str = DESK
    step_id: str = ""
    attempt: int = 0
    role: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ConversationSpec:
    """What a conversation is about. keep: the thread of (role, subject) is kept from one run to the next.

    toolset_hash: a kept thread whose hash differs starts afresh, since tools are fixed when a thread starts.
    opening: what to do with a thread that is kept: go on in it, in a fresh one, or in a fork after its last completed
    turn. A fork or a fresh one takes its place.
    scope: whose work it is. approvals: what the model may ask a person for; anything else is declined at once.
    mode: the role's; a kept thread's limits are those of its mode.
    """

    role: str
    subject: str
    keep: bool
    base_instructions: str
    tools: Toolset
    model: str
    toolset_hash: str
    opening: Opening = "same"
    scope: Scope = Scope()
    approvals: frozenset[ApprovalKind] = frozenset()
    mode: Mode = "other"


def goes_on(reason: str) -> bool:
    """Whether a thread that was opened for this reason has the history of the one before it."""
    return reason == "resumed" or reason.startswith("forked:")


@dataclass(frozen=True, slots=True)
class Opened:
    """A thread ready for turns, and why it is this one. path: its rollout, relative to CODEX_HOME."""

    thread_id: str
    reason: str
    path: str | None = None
