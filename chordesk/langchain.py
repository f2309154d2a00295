"""Chat models on the desk's runtime, and its tools, for programs with LangChain or LangGraph (extra `langchain`)."""

from chordesk.agents.langchain.bridge import ChatError
from chordesk.agents.langchain.chat import ChatCodex
from chordesk.agents.langchain.desk_tools import desk_tools
from chordesk.agents.langchain.runtimes import close_bridges

__all__ = ["ChatCodex", "ChatError", "close_bridges", "desk_tools"]
