"""The check of the exchanges that the desk trades at: the days of their calendars, their duties, the steps and lots of
listings, and exchange rates."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterator, Sequence

from sqlmodel import col, select

from chordesk.models.database.store import current
from chordesk.models.duties import DUTIES
from chordesk.models.errors import DeskError, MarketError
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_code
from chordesk.models.money import FxRate, Money, pair_name
from chordesk.models.tables.orders import Position
from chordesk.tasks.doctor.check import Check, CheckContext, ok, warn
from chordesk.tools.decimals import exact, plain
from chordesk.tools.decimals import money as stated
from chordesk.tools.ledger import account_money
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.fx import FX_REMEDY, MarketRates, listed_in
from chordesk.tools.market.price_steps import market_terms
from chordesk.tools.market.protocol import FxSource, MarketData
from chordesk.tools.market.universe import is_named, resolve_universe
from chordesk.tools.risk.exposure import underlying_of

LEAST_SESSIONS = 20
_YEAR = dt.timedelta(days=365)
_SHOWN = 3
_MOST_LISTINGS = 100  # of a universe, whose steps and lots are looked at

Finding = tuple[str, str]  # what is wrong, and the remedy


def exchanges(context: CheckContext) -> Check:
    """Check what the exchanges in use rest on: those of the run and of what the account holds."""
    symbols = [*_held(context), *_universe(context)]
    codes = sorted({context.desk.market.clock.exchange, *map(exchange_code, symbols)})
    left = {code: _sessions_left(code, context.desk.market.clock.now()) for code in codes}
    found = [*_calendars(left), *_terms(context, symbols), *_dear_lots(context, symbols), *_rates(context, symbols)]
    detail = ", ".join(f"{EXCHANGES[code].place} {count} sessions left" for code, count in left.items())
    detail += _old_duties(codes, context.began.date())
    if not found:
        return ok(detail)
    return warn("; ".join([detail, *(what for what, _ in found)]), "; ".join(dict.fromkeys(how for _, how in found)))


def _held(context: CheckContext) -> list[str]:
    if current(context.settings.database)[0] is None:
        return []
    with context.desk.store.read() as session:
        which = col(Position.account) == context.settings.account
        return sorted({underlying_of(one) for one in session.exec(select(Position.symbol).where(which))})


def _universe(context: CheckContext) -> Sequence[str]:
    """Return the names of a universe of one's own. That which the desk ships is of New York; of another exchange it is
    all that the data have."""
    if is_named(context.settings.universe) and context.settings.exchange == HOME:
        return ()
    try:
        return resolve_universe(context.settings.universe, context.desk.market)[:_MOST_LISTINGS]
    except DeskError:
        return ()  # the check of the market says so


def _sessions_left(code: str, now: dt.datetime) -> int:
    hours = exchange_hours(code)
    return len(hours.opens) - bisect.bisect_right(hours.opens, now)


def _calendars(left: dict[str, int]) -> Iterator[Finding]:
    for code, count in left.items():
        if count < LEAST_SESSIONS:
            ends = exchange_hours(code).sessions[-1]
            yield f"the calendar of {EXCHANGES[code].place} ends on {ends}", "update exchange-calendars"


def _old_duties(codes: Sequence[str], today: dt.date) -> str:
    """Return which duties were stated long ago. It is no warning: most are in force as they were, and another figure
    comes with another version of the desk alone."""
    old = [row for row in DUTIES if today - row.stated > _YEAR and set(codes) & set(row.exchanges)]
    if not old:
        return ""
    rows = _some([f"{row.name} of {EXCHANGES[row.exchanges[0]].place}, {row.stated}" for row in old])
    return f"; duties that were stated more than a year ago, to compare with a contract note: {rows}"


def _terms(context: CheckContext, symbols: Sequence[str]) -> Iterator[Finding]:
    market, unknown = context.desk.market, []
    for symbol in dict.fromkeys(symbols):
        if exchange_code(symbol) == HOME:
            continue
        try:
            why = market_terms(market, market.listing(symbol)).why_not
        except MarketError:
            continue  # what the market does not carry is not traded
        if why is not None:
            unknown.append(symbol)
    if unknown:
        yield f"no step or no lot is known of {_some(unknown)}", "state step and lot in listings.csv"


def _dear_lots(context: CheckContext, symbols: Sequence[str]) -> Iterator[Finding]:
    """Yield what cannot be bought at all: one lot is worth more than an order may be, in the account's currency."""
    market, money, most = context.desk.market, _money(context), exact(context.settings.max_order_notional)
    dear = []
    for symbol in dict.fromkeys(symbols):
        try:
            listing = market.listing(symbol)
            terms = market_terms(market, listing)
            if terms.lot <= 1 or terms.why_not is not None:
                continue
            worth = exact(market.quote(symbol).price) * terms.lot
            if listing.currency != money.base:
                worth *= exact(MarketRates(market, money).rate(listing.currency).rate)
        except MarketError:
            continue  # without a price or a rate nothing is opened, and other checks say so
        if worth > most:
            dear.append(f"{symbol} ({plain(terms.lot)} for {stated(round(worth, 2), money.base)})")
    if dear:
        limit = stated(most, money.base)
        yield f"one lot is more than an order may be ({limit}): {_some(dear)}", "raise DESK_MAX_ORDER_NOTIONAL"


def _rates(context: CheckContext, symbols: Sequence[str]) -> Iterator[Finding]:
    market, money = context.desk.market, _money(context)
    currencies = {listed_in(market, symbol) for symbol in dict.fromkeys(symbols)}
    currencies.add(EXCHANGES[market.clock.exchange].currency)
    for currency in sorted(currencies - {money.base}):
        pair = pair_name(currency, money.base)
        try:
            used = MarketRates(market, money).rate(currency)
        except MarketError as error:
            yield f"{pair}: {error.args[0]}", FX_REMEDY
            continue
        if (own := _own_rate(market, pair)) is not None and own.source != used.source:
            what = f"{pair}: the newest rate of {own.source} is of {own.at:%Y-%m-%d}, longer ago than DESK_MAX_FX_AGE"
            yield f"{what}; that of {used.source} of {used.at:%Y-%m-%d} stands in", f"add newer rates to {own.source}"


def _own_rate(market: MarketData, pair: str) -> FxRate | None:
    """Return the newest rate of the market's own source, however old; None without any."""
    try:
        return market.rate(pair, market.clock.now()) if isinstance(market, FxSource) else None
    except MarketError:
        return None


def _money(context: CheckContext) -> Money:
    settings = context.settings
    if current(settings.database)[0] is None:
        return Money(settings.currency, dt.timedelta(days=settings.max_fx_age))
    with context.desk.store.read() as session:
        return account_money(session, settings, settings.account)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
