"""Signals of single symbols: earnings ahead, headlines, options, hits of the latest screen."""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections import defaultdict
from typing import Any

from chordesk.models.answers import ScreenConfidence
from chordesk.models.board.forecasts import MAX_FINDINGS, Harvest
from chordesk.models.company import EarningsDate
from chordesk.models.errors import NotConfigured
from chordesk.models.market import MODELLED, Headline
from chordesk.models.tables.board import SignalFinding
from chordesk.tools.board.harvest_context import Finding, HarvestContext, LensHit, asleep, best, each, listed, named
from chordesk.tools.market.clock import ExchangeHours, clock_day, exchange_hours
from chordesk.tools.market.earnings import split
from chordesk.tools.market.protocol import EarningsSource
from chordesk.tools.model_tools.company_data import EARNINGS_NOUN, absent, plain_text
from chordesk.tools.model_tools.news import published
from chordesk.tools.options import option_contracts
from chordesk.tools.options.activity_tool import (
    FIRST_DAY,
    LAST_DAY,
    OVER_INTEREST,
    Implied,
    implied_of,
    unusual_contracts,
)
from chordesk.tools.options.option_contracts import UsableChain, usable_chain
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.daily_bars import histories
from chordesk.tools.registry import Gaps

EARNINGS_SESSIONS = 10
# How far a date can be relied on.
CERTAINTY = {True: 0.95, None: 0.7, False: 0.4}
_EARNINGS = Finding(
    "{symbol} reports earnings in {sessionsUntil} sessions: {when}",
    f"that the date holds: {CERTAINTY[True]:g} where its source confirms it, {CERTAINTY[False]:g} where it is an "
    f"estimate, {CERTAINTY[None]:g} where that is not known; nothing about the price",
    f"{{market}} {EARNINGS_NOUN}",
)


def earnings_signals(context: HarvestContext) -> Harvest:
    """Reports of the next 10 sessions. A symbol without a known date is missing: it may still report."""
    market, now = context.tool.market, context.tool.clock.now()
    if not isinstance(market, EarningsSource):
        return asleep(str(absent(market, EARNINGS_NOUN)))
    try:
        found, failed = each(context, lambda symbol: split(market.earnings(symbol), now)[0])
    except NotConfigured as error:
        return asleep(str(error))
    missing = sorted({*failed, *(symbol for symbol, row in found.items() if row is None)})
    hours, today = exchange_hours(context.tool.clock.exchange), clock_day(context.tool.clock)
    near = [(sessions_until(row.date, today, hours), row) for row in found.values() if row is not None]
    near = sorted(
        ((ahead, row) for ahead, row in near if ahead <= EARNINGS_SESSIONS), key=lambda one: (one[0], one[1].symbol)
    )
    if not near:
        unknown = f"; no date is known of {listed(missing)}" if missing else ""
        return asleep(f"no report within {EARNINGS_SESSIONS} sessions{unknown}")
    return Harvest(
        findings=tuple(_earnings_finding(context, row, ahead, missing) for ahead, row in near[:MAX_FINDINGS])
    )


def sessions_until(day: dt.date, today: dt.date, hours: ExchangeHours) -> int:
    """Return how many sessions of an exchange begin after today and up to and with a day; 0 for today."""
    return max(bisect.bisect_right(hours.sessions, day) - bisect.bisect_right(hours.sessions, today), 0)


def _earnings_finding(context: HarvestContext, row: EarningsDate, ahead: int, missing: list[str]) -> SignalFinding:
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
    return _EARNINGS.of(context, data, CERTAINTY[row.confirmed], (row.symbol,), as_of=row.known_at)


TITLES_DAYS = 7
TITLES_ASKED = 25  # of one symbol
_TITLES, _TITLE_CHARS = 3, 160
_COUNTED = Finding(
    "{symbol}: {count} headlines in {days} days{more}, the newest of {newest}",
    "none: titles are counted, not judged",
    "{market} headlines",
)


def headline_signals(context: HarvestContext) -> Harvest:
    """Return the symbols with the most headlines of the last 7 days; a symbol that could not be asked is missing."""
    market = context.tool.market
    try:
        found, failed = each(context, lambda symbol: published(context.tool, market.headlines(symbol, TITLES_ASKED)))
    except NotConfigured as error:
        return asleep(str(error))
    oldest = context.tool.clock.now() - dt.timedelta(days=TITLES_DAYS)
    recent = {symbol: [row for row in rows if row.published_at >= oldest] for symbol, rows in found.items()}
    findings = [_titles_finding(context, symbol, rows, sorted(failed)) for symbol, rows in recent.items() if rows]
    if not findings:
        without = f"; not asked: {listed(sorted(failed))}" if failed else ""
        return asleep(f"no headline on the questions' symbols in the last {TITLES_DAYS} days{without}")
    return best(findings, lambda one: (-one.data["count"], one.subjects))


def _titles_finding(context: HarvestContext, symbol: str, rows: list[Headline], missing: list[str]) -> SignalFinding:
    data: dict[str, Any] = {
        "symbol": symbol,
        "days": TITLES_DAYS,
        "count": len(rows),
        "newest": rows[0].published_at.isoformat(timespec="minutes"),
        "outsideTitles": [plain_text(row.headline, _TITLE_CHARS) for row in rows[:_TITLES]],
        "outsideSources": sorted({plain_text(row.source, 40) for row in rows[:_TITLES]}),
        "missing": named(missing),
    }
    more = " or more" if len(rows) >= TITLES_ASKED else ""
    return _COUNTED.of(context, data, subjects=(symbol,), as_of=rows[0].published_at, more=more)


OPTION_SESSIONS = 20
_UNUSUAL = 2  # findings on volume at most, so that volatility has its place
_CONTRACTS = 10
_RATIO = Finding(
    "{symbol}: implied volatility {iv:.1%} over {days} days against {realised:.1%} realised in {sessions} sessions, "
    "{ratio:.2f} times; implied move {impliedMove:.1%}",
    "d / (1 + d), d = |ln(implied / realised)|: how far the two are apart, not where the price goes",
    "{chains} option chains",
)
_VOLUME = Finding(
    "{symbol}: {contracts} contracts with unusual volume, the largest {contract} with {volume:,.0f} against an open "
    "interest of {openInterest:,.0f}",
    f"1 - {OVER_INTEREST:g} / (volume / open interest), 1 without open interest; "
    "large volume by itself has no direction",
    "{chains} option chains",
)


def option_signals(context: HarvestContext) -> Harvest:
    today = clock_day(context.tool.clock)
    first, last = today + dt.timedelta(days=FIRST_DAY), today + dt.timedelta(days=LAST_DAY)
    try:
        chains, failed = each(context, lambda symbol: usable_chain(context.tool, symbol, first, last, Gaps()))
    except NotConfigured as error:
        return asleep(str(error))
    real = {symbol: one for symbol, one in chains.items() if one.chain.source != MODELLED}
    if chains and not real:
        return asleep("the chains are modelled: implied volatility follows the realised one by assumption, no volume")
    rate = context.tool.settings.risk_free_rate
    implied = {symbol: implied_of(one, rate, Gaps()) for symbol, one in real.items()}
    _keep_marks(context, real, implied)
    missing = [*failed, *(symbol for symbol, one in implied.items() if one is None or one.iv is None)]
    ratios = _ratios(context, real, implied, missing)
    volumes = [
        _volume(context, one, found, missing)
        for one in real.values()
        if (found := unusual_contracts(one, _CONTRACTS, Gaps()))
    ]
    if not volumes and not ratios:
        return asleep(f"no usable chain of {listed(missing)}" if missing else "nothing in the chains stands out")
    return best([*best(volumes).findings[:_UNUSUAL], *ratios])


def _keep_marks(context: HarvestContext, chains: dict[str, UsableChain], implied: dict[str, Implied | None]) -> None:
    """Store today's figures of the chains: ranks and usual volumes are of the desk's own history."""
    kept = [
        option_contracts.mark_of(one, found.iv if (found := implied[symbol]) else None)
        for symbol, one in chains.items()
    ]
    option_contracts.keep(context.tool.store, kept)


def _ratios(
    context: HarvestContext, chains: dict[str, UsableChain], implied: dict[str, Implied | None], missing: list[str]
) -> list[SignalFinding]:
    """Return a finding for each symbol with both volatilities; one without the realised one is added to `missing`."""
    found = []
    realised = {
        history.symbol: price_figures.volatility(history.spread.close, OPTION_SESSIONS)
        for history in histories(context.tool, list(chains), Gaps(), OPTION_SESSIONS + 1)
    }
    missing += [symbol for symbol in chains if not realised.get(symbol) and symbol not in missing]
    for symbol, one in implied.items():
        usual = realised.get(symbol)
        if one is not None and one.iv and one.move is not None and usual:
            found.append(_ratio(context, chains[symbol], one, one.iv, usual, one.move, missing))
    return found


def _ratio(
    context: HarvestContext,
    chain: UsableChain,
    found: Implied,
    iv: float,
    realised: float,
    move: float,
    missing: list[str],
) -> SignalFinding:
    apart = abs(math.log(iv / realised))
    data: dict[str, Any] = {
        "symbol": chain.chain.symbol,
        "iv": round(iv, 4),
        "days": found.days,
        "expiry": found.expiry.isoformat(),
        "realised": round(realised, 4),
        "sessions": OPTION_SESSIONS,
        "ratio": round(iv / realised, 4),
        "impliedMove": round(move, 4),
        "putSkew": None if found.skew is None else round(found.skew, 4),
        "missing": named(missing),
    }
    return _of_chain(_RATIO, context, chain, data, apart / (1 + apart))


def _volume(
    context: HarvestContext, chain: UsableChain, found: list[dict[str, Any]], missing: list[str]
) -> SignalFinding:
    largest = found[0]
    ratio = largest["volumeToInterest"]
    data: dict[str, Any] = {
        "symbol": chain.chain.symbol,
        "contracts": f"{_CONTRACTS} or more" if len(found) == _CONTRACTS else str(len(found)),
        "calls": sum(row["kind"] == "call" for row in found),
        "puts": sum(row["kind"] == "put" for row in found),
        **{name: largest[name] for name in ("contract", "volume", "openInterest", "volumeToInterest", "fromSpot")},
        "missing": named(missing),
    }
    return _of_chain(_VOLUME, context, chain, data, 1.0 if ratio is None else 1 - OVER_INTEREST / ratio)


def _of_chain(
    kind: Finding, context: HarvestContext, chain: UsableChain, data: dict[str, Any], confidence: float
) -> SignalFinding:
    found = chain.chain
    return kind.of(context, data, confidence, (found.symbol,), as_of=found.at, chains=found.source)


# Parts of a confidence: a lens looks for names to buy, and none of them has a record yet.
SCREEN_WEIGHTS = {ScreenConfidence.HIGH: 0.1, ScreenConfidence.MEDIUM: 0.06, ScreenConfidence.SPECULATIVE: 0.02}
MOST_SCREEN = 0.2
_SCREEN = Finding(
    "{symbol}: put forward by {lensCount} of {lensesWithHits} lenses of the screen with hits: {lenses}",
    f"sum over the lenses of {SCREEN_WEIGHTS[ScreenConfidence.HIGH]:g} for high, "
    f"{SCREEN_WEIGHTS[ScreenConfidence.MEDIUM]:g} for medium, {SCREEN_WEIGHTS[ScreenConfidence.SPECULATIVE]:g} for "
    f"speculative, at most {MOST_SCREEN:g}",
    "screen on {market}",
)


def screen_signals(context: HarvestContext) -> Harvest:
    """Hits on the questions' symbols. A symbol without a hit is not a finding: the screen may not have covered it."""
    if not context.hits:
        return asleep("no screen of this account on this market day has hits")
    by_symbol: dict[str, list[LensHit]] = defaultdict(list)
    for hit in sorted(context.hits, key=lambda hit: (hit.symbol, hit.lens)):
        by_symbol[hit.symbol].append(hit)
    wanted = [symbol for symbol in context.symbols if symbol in by_symbol]
    if not wanted:
        return asleep(f"none of the {len(by_symbol)} names that the latest screen put forward is in a question")
    lenses = {hit.lens for hit in context.hits}
    return best(_screen_finding(context, by_symbol[symbol], len(by_symbol), len(lenses)) for symbol in wanted)


def _screen_finding(context: HarvestContext, hits: list[LensHit], names: int, lenses: int) -> SignalFinding:
    data: dict[str, Any] = {
        "symbol": hits[0].symbol,
        "lenses": ", ".join(f"{hit.lens} ({hit.confidence.value})" for hit in hits),
        "lensCount": len(hits),
        "lensesWithHits": lenses,
        "namesPutForward": names,
    }
    weight = min(MOST_SCREEN, sum(SCREEN_WEIGHTS[hit.confidence] for hit in hits))
    return _SCREEN.of(context, data, weight, (hits[0].symbol,), "bullish", as_of=max(hit.at for hit in hits))
