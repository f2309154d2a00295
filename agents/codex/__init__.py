"""The Codex runtime: app-server processes, their threads and turns."""

from agents.codex.config import RuntimeConfig, runtime_config
from agents.codex.conversation import Conversation, TurnResult
from agents.codex.runtime import CodexRuntime, ProcessStatus
from agents.codex.spec import ConversationSpec

__all__ = [
    "CodexRuntime",
    "Conversation",
    "ConversationSpec",
    "ProcessStatus",
    "RuntimeConfig",
    "TurnResult",
    "runtime_config",
]
