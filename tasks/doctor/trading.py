"""Checks of the trading side: market data, the account, the clock."""

from __future__ import annotations

import datetime as dt
import time

from redis.exceptions import RedisError

from models import store
from models.order_tables import Account
from tasks.bootstrap import redis_url
from tasks.doctor.check import Check, Patient, Status
from tasks.doctor.services import not_made
from tasks.redis_clients import client
from tools.ledger import account_view
from tools.market.quotes import Quotes
from tools.market.universe import resolve_universe

MOST_SKEW_SECONDS = 2.0
SECONDS = 3.0


def market(patient: Patient) -> Check:
    """The market gives a price of the first symbol of the universe."""
    source = patient.desk.market
    symbols = resolve_universe(patient.settings.universe, source)
    quote = source.quote(symbols[0])
    detail = f"{source.name}: {len(symbols)} symbols; {quote.symbol} {quote.price:.2f} at {quote.at:%Y-%m-%d %H:%M %Z}"
    if source.name == "replay":
        return Check("market", Status.OK, f"{detail} (replay of old prices)")
    return Check("market", Status.OK, detail)


def broker(patient: Patient) -> Check:
    """The account's books can be read."""
    settings, desk = patient.settings, patient.desk
    name = desk.broker.name
    unopened = f"{name}: not opened yet; the first run opens it with {settings.starting_cash:,.2f}"
    if not_made(patient):
        return Check("broker", Status.OK, unopened)
    store.require_current(settings.database)
    with desk.store.read() as session:
        if session.get(Account, settings.account) is None:
            return Check("broker", Status.OK, unopened)
        view = account_view(session, Quotes(desk.market), settings.account)
    switch = "TRADER_LIVE=1: orders fill" if settings.trader_live else "orders end as previews"
    equity = "not known" if view.equity is None else f"{view.equity:,.2f}"
    held = f"{len(view.positions)} positions"
    return Check("broker", Status.OK, f"{name}: cash {view.cash:,.2f}, equity {equity}, {held}; {switch}")


def clock(patient: Patient) -> Check:
    """This host's clock agrees with Redis, and the exchange calendar reaches beyond the market's now."""
    hours = patient.desk.market.clock
    now, following = hours.now(), hours.next_open()
    state = "open" if hours.is_open() else "closed"
    detail = f"market time {now:%Y-%m-%d %H:%M %Z}, {state}, next open {following:%Y-%m-%d %H:%M %Z}"
    skew = _skew(patient)
    if skew is not None and abs(skew) > MOST_SKEW_SECONDS:
        detail = f"{detail}; this clock is {skew:+.1f} s off the Redis host's"
        return Check("clock", Status.WARN, detail, "let NTP set the clocks: leases and deadlines compare them")
    if following - now > dt.timedelta(days=10):
        return Check("clock", Status.WARN, detail, "update exchange-calendars: no session for ten days is unlikely")
    return Check("clock", Status.OK, detail)


def _skew(patient: Patient) -> float | None:
    """Seconds by which our clock is ahead of the Redis host's; None when Redis does not answer."""
    asked = client(redis_url(patient.settings), SECONDS)
    try:
        before = time.time()
        seconds, micros = asked.time()
        return (before + time.time()) / 2 - (seconds + micros / 1e6)
    except RedisError:
        return None
    finally:
        asked.close()
