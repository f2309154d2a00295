"""Completion of a research answer: its verdict, and earnings that are due before the chosen contract expires."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.analysts.evidence import rows
from chordesk.agents.answers import RecordedCall
from chordesk.models.analysis import ResearchAnalysis
from chordesk.models.research import Stance

RISKS = ("news_risk", "earnings_risk", "short_interest_risk")
_NO_SOURCES = ("symbol_overview", "page_read")
_EARNINGS = {"earnings_dates": "earnings"}


def complete_research(
    answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]
) -> dict[str, Any]:
    """Return the answer as a ResearchAnalysis.

    A pass is CONFIRMED only where each risk is known and low, and no earnings are due before the contract of the
    subject's options report expires; else it is CAUTION.
    """
    symbol = str(subject["symbol"])
    due = _next_earnings(symbol, calls)
    expiry = (subject.get("options") or {}).get("best_expiration")
    before = due <= dt.date.fromisoformat(expiry) if due is not None and expiry is not None else None
    risks = list(answer["key_risks"])
    if before:
        risks.append(f"Earnings on {due}, before the contract expires on {expiry}.")
    made = ResearchAnalysis(
        verdict=_verdict(answer, bool(before)),
        symbol=symbol,
        earnings_date=due.isoformat() if due is not None else None,
        earnings_before_expiry=before,
        key_risks=risks,
        **{name: value for name, value in answer.items() if name != "key_risks"},
    )
    return made.model_dump(mode="json")


def has_source(subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    """Return whether a source on the company had data: its name and price are none, nor is any page of the web."""
    return any(call.answer.has_data for call in calls if call.answer.tool not in _NO_SOURCES)


def _verdict(answer: Mapping[str, Any], before_expiry: bool) -> Stance:
    if answer["recommendation"] == "reject":
        return Stance.REJECT
    calm = all(answer[name] == "low" for name in RISKS)
    return Stance.CONFIRMED if calm and not before_expiry else Stance.CAUTION


def _next_earnings(symbol: str, calls: Sequence[RecordedCall]) -> dt.date | None:
    """Return the date of the next report, as the last answer of the turn has it; the first day of a window."""
    following = [row.get("next") for row in rows(calls, _EARNINGS, symbol)]
    found = following[-1] if following else None
    return dt.date.fromisoformat(found["date"]) if found else None
