"""Checks of the trading side: market data, the account, the clock."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import closing, suppress

from redis.exceptions import RedisError

from chordesk.models.database import store
from chordesk.models.tables.orders import Account
from chordesk.tasks.bootstrap import redis_url
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.doctor.services import not_made
from chordesk.tasks.redis_clients import client
from chordesk.tools.ledger import account_view
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.prices import Quotes
from chordesk.tools.market.universe import resolve_universe

MOST_SKEW_SECONDS = 2.0
SECONDS = 3.0


def market(context: CheckContext) -> Check:
    """Check that the market gives a price of the first symbol of the universe."""
    source = context.desk.market
    symbols = resolve_universe(context.settings.universe, source)
    quote = source.quote(symbols[0])
    detail = f"{source.name}: {len(symbols)} symbols; {quote.symbol} {quote.price:.2f} at {quote.at:%Y-%m-%d %H:%M %Z}"
    return Check("market", CheckStatus.OK, detail + (" (replay of old prices)" if source.clock.day is not None else ""))


def data(context: CheckContext) -> Check:
    """Check every file of the folder of own data, where there is one in use."""
    settings = context.settings
    if settings.market != "files" or settings.data is None:
        return Check("data", CheckStatus.OK, "no folder of own data is in use (DESK_MARKET=files, DESK_DATA)")
    report = check_folder(settings.data, settings.data_prices, 1)
    problems = report.problems
    detail = f"{report.about or settings.data}; {'; '.join(report.contents)}"
    remedy = f"`desk data check {settings.data}` names each with its file, row and column"
    if problems.errors:
        return Check("data", CheckStatus.FAIL, f"{problems.errors} errors: {problems.of('error')[0]}", remedy)
    if problems.warnings:
        return Check("data", CheckStatus.WARN, f"{detail}; {problems.warnings} warnings", remedy)
    return Check("data", CheckStatus.OK, detail)


def broker(context: CheckContext) -> Check:
    """Check that the account's books can be read."""
    settings, desk = context.settings, context.desk
    name = desk.broker.name
    unopened = f"{name}: not opened yet; the first run opens it with {settings.starting_cash:,.2f}"
    if not_made(context):
        return Check("broker", CheckStatus.OK, unopened)
    store.require_current(settings.database)
    with desk.store.read() as session:
        if session.get(Account, settings.account) is None:
            return Check("broker", CheckStatus.OK, unopened)
        view = account_view(session, Quotes(desk.market), settings.account)
    switch = "TRADER_LIVE=1: orders fill" if settings.trader_live else "orders end as previews"
    equity = "unknown" if view.equity is None else f"{view.equity:,.2f}"
    held = f"{len(view.positions)} positions"
    return Check("broker", CheckStatus.OK, f"{name}: cash {view.cash:,.2f}, equity {equity}, {held}; {switch}")


def clock(context: CheckContext) -> Check:
    """Check that this host's clock agrees with Redis, and that the exchange calendar extends past the market's now."""
    hours = context.desk.market.clock
    now, following = hours.now(), hours.next_open()
    state = "open" if hours.is_open() else "closed"
    detail = f"market time {now:%Y-%m-%d %H:%M %Z}, {state}, next open {following:%Y-%m-%d %H:%M %Z}"
    skew = _skew(context)
    if skew is not None and abs(skew) > MOST_SKEW_SECONDS:
        detail = f"{detail}; this clock is {skew:+.1f} s off the Redis host's"
        return Check("clock", CheckStatus.WARN, detail, "let NTP set the clocks: leases and deadlines compare them")
    if following - now > dt.timedelta(days=10):
        remedy = "update exchange-calendars: no session for ten days is unlikely"
        return Check("clock", CheckStatus.WARN, detail, remedy)
    return Check("clock", CheckStatus.OK, detail)


def _skew(context: CheckContext) -> float | None:
    """Return the seconds by which our clock is ahead of the Redis host's; None when Redis does not answer."""
    with suppress(RedisError), closing(client(redis_url(context.settings), SECONDS)) as redis:
        before = time.time()
        seconds, micros = redis.time()
        return (before + time.time()) / 2 - (seconds + micros / 1e6)
    return None
