"""TradingAgents on the desk's chat model: a provider `codex` in its own registry, with no file of it changed."""

from __future__ import annotations

from chordesk.models.errors import UsageError
from chordesk.models.logs import keep_apart


def register(*, effort: str | None = None, verbosity: str | None = None, summary: str | None = None) -> None:
    """Missing arguments come from the desk's settings. Raises UsageError without TradingAgents or LangChain,
    SettingError."""
    try:
        from chordesk.agents.graphs.tradingagents.provider import enter, options_of
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("langchain"):
            raise
        raise UsageError(f"{error.name} is not installed", remedy="pip install 'chordesk[langchain]'") from None
    from chordesk.models.settings.sources import load_settings

    enter(options_of(load_settings(agree=False), effort=effort, verbosity=verbosity, summary=summary))


__all__ = ["register"]
keep_apart()
