"""The Codex runtime: app-server processes, their threads and turns."""

from agents.codex.config import RuntimeConfig, runtime_config
from agents.codex.conversation import Conversation, ConversationSpec, TurnResult
from agents.codex.runtime import CodexRuntime, ProcessStatus

__all__ = [
    "CodexRuntime",
    "Conversation",
    "ConversationSpec",
    "ProcessStatus",
    "RuntimeConfig",
    "TurnResult",
    "runtime_config",
]
