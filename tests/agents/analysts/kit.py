"""Tool calls as a turn records them: real answers of the real tools, and altered copies of them."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chordesk.agents.roles import ROLES
from chordesk.agents.subjects import analyst_subject, validator_subject
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.settings import Settings
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import TurnTools

AT = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)


def subject(symbol: str = "AAPL", strategy: Any = "csp", earlier: Any = None, **limits: Any) -> dict[str, Any]:
    """The subject of an analyst's turn."""
    request = AnalysisRequest(strategy=strategy, **limits)
    return dict(analyst_subject(validator_subject(symbol, "equity", [], Settings()), request, earlier))


def recorded(market: MarketData, home: Path, role: str, *calls: tuple[str, dict[str, Any]]) -> list[RecordedCall]:
    """The calls of a turn, answered by the role's own tools."""
    context = ToolContext(market, market.clock, None, Settings(home=home), "paper", None)
    tools = TurnTools(ROLES[role].tools, context)
    return [RecordedCall(asked, asyncio.run(tools.call(name, asked)), AT) for name, asked in calls]


def altered(calls: list[RecordedCall], change: Callable[[dict[str, Any]], None]) -> list[RecordedCall]:
    """The calls with their payloads changed."""
    found = []
    for call in calls:
        payload = copy.deepcopy(call.answer.payload)
        change(payload)
        found.append(call._replace(answer=dataclasses.replace(call.answer, payload=payload)))
    return found
