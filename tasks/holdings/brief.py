"""What the trader is told of outside accounts where DESK_BOOK=weights: shares of the outside total, and nothing of
amounts, quantities, costs or names of accounts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlmodel import Session

from chordesk.models.market import parse_contract
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.tables.runs import Run
from chordesk.tools.holdings.keeping import Outside, accounts
from chordesk.tools.holdings.portfolio_view import sessions_since
from chordesk.tools.market.clock import account_day
from chordesk.tools.risk.exposure import underlying_of

MOST = 40  # holdings that are named, the largest


def brief_of_trader(session: Session, run_id: str) -> dict[str, Any]:
    """Return the weights by the files' own values, as of the accounts' days; nothing in a backtest, and of a run whose
    model is not to know what it trades."""
    run = session.get_one(Run, run_id)
    settings = run.settings or {}
    if settings.get("book") != "weights" or settings.get("mask") or is_backtest(run.account):
        return {}
    today = account_day(run.market_now)
    found = accounts(session, today)
    values: defaultdict[str, float] = defaultdict(float)
    left = 0
    for one in found:
        for each in one.positions:
            value = _value(each)
            if value is None:
                left += 1
            elif each.row.kind == "cash":
                values["cash"] += value
            else:
                values[underlying_of(each.symbol) if each.symbol else "without a ticker"] += value
    total = sum(values.values())
    if total <= 0:
        return {}
    ranked = sorted(values.items(), key=lambda one: (-abs(one[1]), one[0]))
    oldest = min(one.as_of for one in found)
    return {
        "heldElsewhere": {
            "about": "held at other brokers, never traded here; shares of the total there",
            "weights": {name: round(value / total, 3) for name, value in ranked[:MOST]},
            "notNamed": max(len(ranked) - MOST, 0),
            "withoutValue": left,
            "asOf": oldest.isoformat(),
            "sessionsOld": sessions_since(oldest, today),
        }
    }


def _value(held: Outside) -> float | None:
    row = held.row
    if row.rate is None:
        return None
    if row.value is not None:
        return float(row.value * row.rate)
    size = 100 if held.symbol and parse_contract(held.symbol) else 1
    return None if row.price is None else float(row.quantity * row.price * size * row.rate)
