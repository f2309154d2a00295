"""Shares of the total that is held at other brokers, by the files' own values: for the trader where DESK_BOOK=weights,
and for people in a run's report. Nothing of amounts, quantities, costs or names of accounts."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.market import parse_contract
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.tables.runs import Run
from chordesk.tools.holdings.keeping import Outside, OutsideAccount, accounts
from chordesk.tools.holdings.portfolio_view import Weight, sessions_since
from chordesk.tools.market.clock import account_day
from chordesk.tools.risk.exposure import underlying_of

MOST = 40  # holdings that are named, the largest


class HeldElsewhere(Frozen):
    """as_of: the oldest account's day; sessions_old: sessions from it to the run's day. not_named: how many smaller
    ones there are; without_value: those in no weight."""

    weights: list[Weight]
    not_named: int
    without_value: int
    as_of: dt.date
    sessions_old: int


def held_elsewhere(session: Session, run: Run) -> HeldElsewhere | None:
    """Return what was known on the run's day; None without any, in a backtest, and where DESK_BOOK is off."""
    if (run.settings or {}).get("book") in (None, "off") or is_backtest(run.account):
        return None
    today = account_day(run.market_now)
    return _weighed(accounts(session, today), today)


def _weighed(found: Sequence[OutsideAccount], today: dt.date) -> HeldElsewhere | None:
    values: defaultdict[str, float] = defaultdict(float)
    left = 0
    for each in (position for one in found for position in one.positions):
        value = _value(each)
        if value is None:
            left += 1
        elif each.row.kind == "cash":
            values["cash"] += value
        else:
            values[underlying_of(each.symbol) if each.symbol else "without a ticker"] += value
    total = sum(values.values())
    if total <= 0:
        return None
    ranked = sorted(values.items(), key=lambda one: (-abs(one[1]), one[0]))
    oldest = min(one.as_of for one in found)
    return HeldElsewhere(
        weights=[Weight(name=name, weight=round(value / total, 3)) for name, value in ranked[:MOST]],
        not_named=max(len(ranked) - MOST, 0),
        without_value=left,
        as_of=oldest,
        sessions_old=sessions_since(oldest, today),
    )


def brief_of_trader(session: Session, run_id: str) -> dict[str, Any]:
    """Return the weights as of the accounts' days; nothing of a run whose model is not to know what it trades."""
    run = session.get_one(Run, run_id)
    settings = run.settings or {}
    if settings.get("book") != "weights" or settings.get("mask"):
        return {}
    found = held_elsewhere(session, run)
    if found is None:
        return {}
    return {
        "heldElsewhere": {
            "about": "held at other brokers, never traded here; shares of the total there",
            "weights": {one.name: one.weight for one in found.weights},
            "notNamed": found.not_named,
            "withoutValue": found.without_value,
            "asOf": found.as_of.isoformat(),
            "sessionsOld": found.sessions_old,
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
