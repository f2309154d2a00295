"""A checkout of TradingAgents that some tests use, where there is one."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

# Taken out of the environment: the desk refuses a variable of its prefix that is no setting.
_GIVEN = os.environ.pop("DESK_TRADINGAGENTS", None)
CHECKOUT = Path(_GIVEN).resolve() if _GIVEN else None
LIBRARIES = ("langchain_openai", "langgraph.checkpoint.sqlite", "stockstats", "questionary", "yfinance")


def lacking() -> str | None:
    """Return what there is not of a checkout and its libraries; None where all is there."""
    if CHECKOUT is None:
        return "set DESK_TRADINGAGENTS to a checkout of TauricResearch/TradingAgents at v0.3.0"
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return f"TradingAgents needs {', '.join(missing)}, which are not installed" if missing else None


def needed() -> Path:
    """Return the checkout. Skips the test, with the reason, where there is none or its libraries are not installed."""
    if (why := lacking()) is not None:
        pytest.skip(why)
    assert CHECKOUT is not None
    return CHECKOUT
