"""Chat models on the desk's runtime, and its tools, for programs with LangChain or LangGraph (extra `langchain`)."""

from chordesk.agents.graphs.langchain.chat_codex import ChatCodex
from chordesk.agents.graphs.langchain.desk_tools import desk_tools
from chordesk.agents.graphs.langchain.ephemeral_turns import ChatError
from chordesk.agents.graphs.langchain.graph_store import DeskStore, desk_store
from chordesk.agents.graphs.langchain.runtimes import close_bridges, register
from chordesk.models.logs import keep_apart

__all__ = ["ChatCodex", "ChatError", "DeskStore", "close_bridges", "desk_store", "desk_tools", "register"]

keep_apart()
