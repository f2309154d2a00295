"""events: which symbols report earnings within the next sessions."""

from __future__ import annotations

import bisect
import datetime as dt
from typing import Any

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalFinding
from chordesk.models.company import EarningsDate
from chordesk.models.errors import NotConfigured
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, each, listed, named
from chordesk.tools.harvest.headline import compose
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.protocol import EarningsSource
from chordesk.tools.research.earnings import WHAT, split
from chordesk.tools.research.rows import absent

SESSIONS = 10
# How far a date can be relied on.
CERTAINTY = {True: 0.95, None: 0.7, False: 0.4}
_BASIS = (
    f"that the date holds: {CERTAINTY[True]:g} where its source confirms it, {CERTAINTY[False]:g} where it is an "
    f"estimate, {CERTAINTY[None]:g} where that is not known; nothing about the price"
)
_HEADLINE = "{symbol} reports earnings in {sessionsUntil} sessions: {when}"


def harvest(context: HarvestContext) -> Harvest:
    """Return the reports of the next 10 sessions, the nearest first. A symbol without a known date is missing, which is
    no sign that it does not report."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    market, now = context.tool.market, context.tool.clock.now()
    if not isinstance(market, EarningsSource):
        return asleep(str(absent(market, WHAT)))
    try:
        found, failed = each(context, lambda symbol: split(list(market.earnings(symbol)), now)[0])
    except NotConfigured as error:
        return asleep(str(error))
    missing = sorted({*failed, *(symbol for symbol, row in found.items() if row is None)})
    today = exchange_day(now)
    near = [(sessions_until(row.date, today), row) for row in found.values() if row is not None]
    near = sorted(((ahead, row) for ahead, row in near if ahead <= SESSIONS), key=lambda one: (one[0], one[1].symbol))
    if not near:
        unknown = f"; no date is known of {listed(missing)}" if missing else ""
        return asleep(f"no report within {SESSIONS} sessions{unknown}")
    return Harvest(findings=tuple(_finding(context, row, ahead, missing) for ahead, row in near[:MAX_FINDINGS]))


def sessions_until(day: dt.date, today: dt.date) -> int:
    """Return how many sessions of the exchange begin after today and up to and with a day; 0 for today."""
    sessions = exchange_hours().sessions
    return max(bisect.bisect_right(sessions, day) - bisect.bisect_right(sessions, today), 0)


def _finding(context: HarvestContext, row: EarningsDate, ahead: int, missing: list[str]) -> SignalFinding:
    until = f" to {row.until}" if row.until is not None and row.until != row.date else ""
    timing = {None: "", "beforeOpen": ", before the open", "duringSession": ", during the session"}
    data: dict[str, Any] = {
        "symbol": row.symbol,
        "sessionsUntil": ahead,
        "when": f"{row.date}{until}{timing.get(row.timing, ', after the close')}",
        "confirmed": row.confirmed,
        "epsEstimate": row.eps_estimate,
        "missing": named(missing),
    }
    return SignalFinding(
        headline=compose(_HEADLINE, data),
        data=data,
        confidence=CERTAINTY[row.confirmed],
        basis=_BASIS,
        subjects=(row.symbol,),
        source=f"{context.tool.market.name} {WHAT}",
        as_of=row.known_at,
    )
