"""Checks of the trading side: market data, the account, the clock, the audit log, and the mandate of real money."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from redis.exceptions import RedisError

from chordesk.models.database import store
from chordesk.models.exchanges import at_exchange, at_listing
from chordesk.models.money import coded
from chordesk.models.orders import Denied
from chordesk.models.tables.orders import Account
from chordesk.models.text import utc, utc_seconds
from chordesk.tasks.doctor.check import Check, CheckContext, fail, not_made, ok, warn
from chordesk.tasks.reading.troubles import halts
from chordesk.tasks.redis_clients import client, redis_url
from chordesk.tools.decimals import money
from chordesk.tools.ledger import account_money, currency_of_account, value
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.fx import listed_in
from chordesk.tools.market.prices import Quotes
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.orders.audit import log_path, place_of
from chordesk.tools.orders.audit_reading import CheckedChain, check_logs
from chordesk.tools.orders.halting import halt_file
from chordesk.tools.orders.mandates import in_force, usage_of
from chordesk.tools.orders.protection import read_book, standing_stop, unprotected

MOST_SKEW_SECONDS = 2.0
SECONDS = 3.0


def market(context: CheckContext) -> Check:
    """Check that the market gives a price of the first symbol of the universe."""
    source = context.desk.market
    symbols = resolve_universe(context.settings.universe, source)
    quote = source.quote(symbols[0])
    price = coded(f"{quote.price:.2f}", listed_in(source, quote.symbol))
    seen = f"{quote.symbol} {price} at {at_listing(quote.at, quote.symbol)}"
    detail = f"{source.name}: {len(symbols)} symbols; {seen}"
    return ok(detail + (" (replay of old prices)" if source.clock.day is not None else ""))


def data(context: CheckContext) -> Check:
    """Check every file of the folder of own data, where there is one in use."""
    settings = context.settings
    if settings.market != "files" or settings.data is None:
        return ok("no folder of own data is in use (DESK_MARKET=files, DESK_DATA)")
    report = check_folder(settings.data, settings.data_prices, 1)
    problems = report.problems
    detail = f"{report.about or settings.data}; {'; '.join(report.contents)}"
    remedy = f"`desk data check {settings.data}` names each with its file, row and column"
    if problems.errors:
        return fail(f"{problems.errors} errors: {problems.of('error')[0]}", remedy)
    if problems.warnings:
        return warn(f"{detail}; {problems.warnings} warnings", remedy)
    return ok(detail)


def broker(context: CheckContext) -> Check:
    settings, desk = context.settings, context.desk
    name = desk.broker.name
    first = coded(f"{settings.starting_cash:,.2f}", settings.currency)
    unopened = f"{name}: not opened yet; the first run opens it with {first}"
    if not_made(context):
        return ok(unopened)
    store.require_current(settings.database)
    with desk.store.read() as session:
        if session.get(Account, settings.account) is None:
            return ok(unopened)
        money = account_money(session, settings, settings.account)
        view = value(session, Quotes(desk.market, money), settings.account)
    switch = "TRADER_LIVE=1: orders fill" if settings.trader_live else "orders end as previews"
    cash, equity = (
        "unknown" if one is None else coded(f"{one:,.2f}", view.currency) for one in (view.cash, view.equity)
    )
    held = f"{len(view.positions)} positions"
    keys = f"; its keys are in {' and '.join(names)}" if (names := settings.sends_to.credentials) else ""
    return ok(f"{name}: cash {cash}, equity {equity}, {held}; {switch}{keys}")


def clock(context: CheckContext) -> Check:
    """Check that this host's clock agrees with Redis, and that the exchange calendar extends past the market's now."""
    hours = context.desk.market.clock
    now, following = hours.now(), hours.next_open()
    state = "open" if hours.is_open() else "closed"
    at, opens = (at_exchange(moment, hours.exchange) for moment in (now, following))
    detail = f"market time {at}, {state}, next open {opens}"
    skew = _skew(context)
    if skew is not None and abs(skew) > MOST_SKEW_SECONDS:
        detail = f"{detail}; this clock is {skew:+.1f} s off the Redis host's"
        return warn(detail, "let NTP set the clocks: leases and deadlines compare them")
    if following - now > dt.timedelta(days=10):
        remedy = "update exchange-calendars: no session for ten days is unlikely"
        return warn(detail, remedy)
    return ok(detail)


def _skew(context: CheckContext) -> float | None:
    """Return the seconds by which our clock is ahead of the Redis host's; None when Redis does not answer."""
    with suppress(RedisError), closing(client(redis_url(context.settings), SECONDS)) as redis:
        before = time.time()
        seconds, micros = redis.time()
        return (before + time.time()) / 2 - (seconds + micros / 1e6)
    return None


VERIFY = "`desk audit verify` names every line"


def audit_log(context: CheckContext) -> Check:
    """Check that lines can be added to the log, and that the existing ones are whole."""
    path = log_path(context.settings)
    try:
        _probe(path)
    except OSError as error:
        detail = f"{path.parent} cannot be written: {error.strerror}"
        return fail(detail, "make it writable: each order needs its line in the log")
    if not_made(context):
        return ok(f"{path}: nothing is on record yet")
    store.require_current(context.settings.database)
    return judge(path, check_logs(context.desk.store, context.settings))


def _probe(path: Path) -> None:
    folder = path.parent
    if not folder.exists():
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as probe:
        probe.write(b"x")
        probe.flush()
    if path.exists():
        path.open("ab").close()


def judge(path: Path, checked: Sequence[CheckedChain]) -> Check:
    """Return the result for these logs. Logs of other data folders can only be read where they are."""
    here = place_of(path.parent)
    away = [one for one in checked if one.file is None and one.place != here]
    broken = [one for one in checked if not one.whole and one not in away]
    if broken:
        problem = broken[0].reading.problems[0]
        return fail(f"{broken[0].file or broken[0].place}: {problem}", VERIFY)
    count = sum(one.count for one in checked if one not in away)
    detail = f"{path}: {count:,} lines, whole" if count else f"{path}: nothing is on record yet"
    if before := [(one, one.since_at) for one in checked if one.since_at is not None]:
        read = ", ".join(f"the first {one.since:,} as read at {utc_seconds(at)}" for one, at in before)
        detail += f" ({read}; `desk audit verify` reads them again)"
    if away:
        detail += f"; {len(away)} more of other data folders cannot be read from here"
        return warn(detail, "`desk audit verify --with FILE` takes copies of them")
    return ok(detail)


def trading(context: CheckContext) -> Check:
    """Check that no account is halted, and none may only give exposure back."""
    settings = context.settings
    if not_made(context):
        if halt_file(settings).exists():
            return warn(f"{halt_file(settings)} halts every account", "remove it, or start the desk and `desk resume`")
        return ok("no account is halted")
    store.require_current(settings.database)
    with context.desk.store.read() as session:
        found = halts(session, settings)
    if not found:
        return ok("no account is halted")
    return warn("; ".join(map(str, found)), "; ".join(f"`{one.resume}`" for one in found) + " when the cause is gone")


def protection(context: CheckContext) -> Check:
    """Check that shares have the stops that DESK_PROTECT and the plans of their positions give them."""
    settings = context.settings
    rule = f"DESK_PROTECT={settings.protect}"
    if settings.protect == "none":
        rule += ": no rule places a stop; a position whose plan has one gets it"
    if not_made(context):
        return ok(f"{rule}; no share is held yet")
    store.require_current(settings.database)
    with context.desk.store.read() as session:
        book = read_book(session, settings.account)
        found = unprotected(session, settings, book)
    wanted = sum(standing_stop(settings, book, one) is not None for one in book.holdings)
    if not found:
        return ok(f"{rule}; {_protected(wanted, len(book.holdings))}")
    listed = "; ".join(f"{row.quantity:g} {row.symbol} ({row.why})" for row in found)
    detail = f"{rule}, and without a stop: {listed}"
    remedy = "remove the reason: the trade worker places a stop each minute"
    return warn(detail, remedy)


def _protected(wanted: int, held: int) -> str:
    if not held:
        return "no share is held"
    without = f"; {held - wanted} of {held} held positions have neither rule nor plan for one" if wanted < held else ""
    return f"every share that ought to have a stop has it ({wanted} of {held} held positions){without}"


def mandate(context: CheckContext) -> Check:
    settings = context.settings
    if not settings.real_money:
        return ok(f"{settings.broker} moves no real money and needs none")
    remedy = "a person signs one with `desk arm`; DESK_MANDATE_PUBLIC_KEY verifies it"
    if not_made(context):
        return fail(f"no mandate was ever armed for {settings.broker}", remedy)
    store.require_current(settings.database)
    with context.desk.store.read() as session:
        found = in_force(session, settings, settings.broker)
        if isinstance(found, Denied):
            return fail(found.reason, remedy)
        used = usage_of(session, settings.broker, found.version)
        base = currency_of_account(session, settings.broker)
    notional, most = money(used.notional, base), money(found.max_notional, base)
    spent = f"{used.orders} of {found.max_orders} orders, {notional} of {most} used"
    until = f"{utc(found.expires_at)}"
    return ok(f"mandate {found.version} of {settings.broker} until {until}: {spent}")
