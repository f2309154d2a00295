"""Chat models on the desk's runtime, and its tools, for programs with LangChain or LangGraph (extra `langchain`)."""

import logging
from typing import Any

import structlog

from chordesk.agents.langchain.bridge import ChatError
from chordesk.agents.langchain.chat import ChatCodex
from chordesk.agents.langchain.desk_tools import desk_tools
from chordesk.agents.langchain.memory import DeskStore, desk_store
from chordesk.agents.langchain.runtimes import close_bridges, register

__all__ = ["ChatCodex", "ChatError", "DeskStore", "close_bridges", "desk_store", "desk_tools", "register"]


def _logger(*names: Any) -> Any:
    """Return the logger of a name: Python's own for the desk's modules, whose lines belong to no program's output."""
    ours = bool(names) and str(names[0]).startswith("chordesk.")
    return logging.getLogger(names[0]) if ours else structlog.PrintLogger()


if not structlog.is_configured():
    structlog.configure(logger_factory=_logger)
