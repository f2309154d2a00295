"""Market snapshots: quotes, listings and the clock for everything that a decision touches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.day_limits import DayBand, day_limit_of
from chordesk.models.errors import DeskError, MarketError, OrderError
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.market import Listing, Quote, legs_of, parse_contract
from chordesk.models.money import FxRate, Money, pair_name
from chordesk.models.orders import DenialCode
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_OPEN, OrderState
from chordesk.models.tables.orders import Order, Position
from chordesk.tools.market.earnings import next_earnings
from chordesk.tools.market.fx import MarketRates, traded_in
from chordesk.tools.market.price_steps import Terms, day_band, market_terms, symbol_terms
from chordesk.tools.market.prices import previous_session, quote_of, traded_bars
from chordesk.tools.market.protocol import MarketClock, MarketData
from chordesk.tools.registry import ToolContext
from chordesk.tools.risk.conduct import IDLE_SESSIONS
from chordesk.tools.risk.exposure import underlying_of

# Not sent yet, and on its way: it waits for a person, or for the next pass of the trade queue.
WAITING = (OrderState.APPROVAL_PENDING.value, OrderState.APPROVED.value)


class Hours(NamedTuple):
    """Whether an exchange is open now, None where that is not known, and when it opens next."""

    is_open: bool | None
    next_open: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Quotes, listings and clock read once, outside any transaction: a transaction must not wait for a network."""

    now: dt.datetime
    quotes: Mapping[str, Quote]
    reasons: Mapping[str, str]
    hours: Mapping[str, Hours] = field(default_factory=dict)  # by code of an exchange
    # None for a symbol that the market does not carry; no entry where it did not answer
    listings: Mapping[str, Listing | None] = field(default_factory=dict)
    previous_session: dt.date | None = None  # the last one before today
    # the next day of those of each underlying of a put; no entry where none is known
    earnings: Mapping[str, dt.date] = field(default_factory=dict)
    idle: Mapping[str, int] = field(default_factory=dict)  # of each share, its last sessions in a row without volume
    # The account's currency, the rates of others into it, why one is not known, and the newest ones, however old.
    money: Money = field(default_factory=Money)
    rates: Mapping[str, FxRate] = field(default_factory=dict)
    without_rate: Mapping[str, str] = field(default_factory=dict)
    old_rates: Mapping[str, FxRate] = field(default_factory=dict)
    # How listings of other exchanges are sized and priced, and how far their prices may be from the close before.
    terms: Mapping[str, Terms] = field(default_factory=dict)
    bands: Mapping[str, DayBand] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # as those of `RiskContext`
    replayed: bool = False  # whether the market is of a past day: what is decided meets the next session

    def hours_of(self, symbol: str) -> Hours:
        """Return whether the exchange of a symbol is open; nothing is known where it was not asked about."""
        return self.hours.get(exchange_code(underlying_of(symbol)), Hours(None, None))

    def quote(self, symbol: str) -> Quote:
        if symbol not in self.quotes:
            raise MarketError(self.reasons.get(symbol, f"no quote of {symbol} was read"))
        return self.quotes[symbol]

    def listed(self, symbol: str) -> bool | None:
        return self.listings[symbol] is not None if symbol in self.listings else None

    def terms_of(self, symbol: str) -> Terms:
        return self.terms.get(symbol) or symbol_terms(symbol)

    def rate(self, currency: str) -> FxRate:
        if currency not in self.rates:
            pair = pair_name(currency, self.money.base)
            raise MarketError(self.without_rate.get(currency, f"no rate of {pair} was read"))
        return self.rates[currency]

    def newest(self, currency: str) -> FxRate | None:
        return self.rates.get(currency) or self.old_rates.get(currency)

    def currency(self, symbol: str) -> str:
        return listed_of(self.listings, symbol)

    def sector(self, symbol: str) -> str | None:
        listing = self.listings.get(symbol)
        return listing.sector if listing else None


def symbols_of(session: Session, orders: Iterable[Order], account: str) -> set[str]:
    """Their symbols and contracts, all positions, other open orders, and each contract's underlying."""
    rows = list(orders)
    found = {name for order in rows for name in (order.symbol, order.contract) if name}
    found.update(leg.contract for order in rows for leg in legs_of(order.legs))
    found.update(session.exec(select(Position.symbol).where(col(Position.account) == account)))
    others = session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(ORDER_OPEN)))
    found.update(order.symbol for order in others)
    contracts = (parse_contract(name) for name in found)
    return found | {contract.underlying for contract in contracts if contract}


def take_snapshot(market: MarketData, symbols: Iterable[str], money: Money | None = None) -> Snapshot:
    """Its time is taken after all is read: a live quote carries the moment of its fetch, and would be later. money: of
    the account whose currency the prices are turned into; without it no rate is read."""
    found: dict[str, Quote] = {}
    reasons: dict[str, str] = {}
    listings: dict[str, Listing | None] = {}
    idle: dict[str, int] = {}
    terms: dict[str, Terms] = {}
    bands: dict[str, DayBand] = {}
    names = set(symbols)
    for symbol in sorted(names):
        try:
            found[symbol] = quote_of(market, symbol)
        except MarketError as error:
            reasons[symbol] = str(error)
        if parse_contract(symbol) is None:
            _list(market, symbol, listings)
            idle[symbol] = _idle(market, symbol)
            if exchange_code(symbol) != HOME:
                terms[symbol], band = _traded_by(market, symbol, listings)
                bands.update({symbol: band} if band is not None else {})
    rates = _Rates(market, money)
    for symbol in names:
        rates.read(listed_of(listings, symbol))
    now = market.clock.now()
    quotes = {symbol: quote for symbol, quote in found.items() if quote.at <= now}
    for symbol in found.keys() - quotes.keys():
        reasons[symbol] = f"the quote of {symbol} is of {found[symbol].at.isoformat()}, later than now"
    codes = {exchange_code(underlying_of(symbol)) for symbol in names}
    hours = {code: _hours(market.clock, code) for code in sorted(codes)}
    earnings = dict(_earnings(market, names))
    return Snapshot(
        now, quotes, reasons, hours, listings, previous_session(market), earnings, idle, rates.money,
        rates.found, rates.without, rates.old, terms, bands, replayed=market.clock.day is not None,
    )  # fmt: skip


def _traded_by(market: MarketData, symbol: str, listings: Mapping[str, Listing | None]) -> tuple[Terms, DayBand | None]:
    """Return how a listing is sized and priced, and the range of its prices on the day after its last close."""
    terms = market_terms(market, listings.get(symbol) or Listing(symbol=symbol))
    if day_limit_of(symbol) is None:
        return terms, None
    try:
        closes = traded_bars(market, symbol, 1).close
    except MarketError:
        return terms, None
    return terms, day_band(symbol, [float(closes[-1])] if len(closes) else [], terms)


@dataclass(slots=True)
class _Rates:
    """The rates that a snapshot needs, each asked for once."""

    market: MarketData
    asked: Money | None
    found: dict[str, FxRate] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    old: dict[str, FxRate] = field(default_factory=dict)

    @property
    def money(self) -> Money:
        return self.asked or Money()

    def read(self, currency: str) -> None:
        if self.asked is None or currency in (self.asked.base, *self.found, *self.without):
            return
        source = MarketRates(self.market, self.asked)
        try:
            self.found[currency] = source.rate(currency)
        except MarketError as error:
            self.without[currency] = f"{error.args[0]}; {error.remedy}"
            if (newest := source.newest(currency)) is not None:
                self.old[currency] = newest


def listed_of(listings: Mapping[str, Listing | None], symbol: str) -> str:
    """Return the currency of the prices of a symbol or a contract, by its listing, else by its form."""
    contract = parse_contract(symbol)
    listing = listings.get(contract.underlying if contract else symbol)
    return listing.currency if listing is not None else traded_in(symbol)


def _idle(market: MarketData, symbol: str) -> int:
    """Return how many of a share's last sessions in a row had a volume of zero. Where a market has no volume of a
    session, it is not known, and does not count."""
    try:
        volumes = market.bars(symbol, IDLE_SESSIONS).volume.tolist()
    except MarketError:
        return 0
    return next((back for back, volume in enumerate(reversed(volumes)) if volume != 0), len(volumes))


def _earnings(market: MarketData, symbols: Iterable[str]) -> Iterable[tuple[str, dt.date]]:
    contracts = (parse_contract(symbol) for symbol in symbols)
    for name in sorted({one.underlying for one in contracts if one is not None and one.kind == "put"}):
        if (day := next_earnings(market, name)) is not None:
            yield name, day


def _list(market: MarketData, symbol: str, listings: dict[str, Listing | None]) -> None:
    try:
        listings[symbol] = market.listing(symbol)
    except MarketError as error:
        if not error.retryable:
            listings[symbol] = None


def _hours(clock: MarketClock, exchange: str) -> Hours:
    try:
        is_open = clock.is_open(exchange)
    except MarketError:
        return Hours(None, None)
    try:
        return Hours(is_open, None if is_open else clock.next_open(exchange))
    except MarketError:
        return Hours(is_open, None)


def with_facts(snapshot: Snapshot, store: Store, settings: Settings, market: MarketData, order: Order) -> Snapshot:
    """Return the snapshot with the facts of each rule that has some and binds the order, outside any transaction, as
    the snapshot itself. Facts that cannot be collected are the error: then the rule denies."""
    exits = order.action not in ("open", "add")
    wanted = {code: one for code, one in DenialCode.of_features().items() if one.facts and (one.exits or not exits)}
    if not wanted:
        return snapshot
    context = ToolContext(market, market.clock, store, settings, order.account, order.run_id)
    facts: dict[str, Any] = {}
    for code, one in wanted.items():
        try:
            facts[code] = features.part("denials", code, one.facts, kind=Callable)(context, order.symbol)
        except DeskError as error:
            facts[code] = error
        except (Exception, SystemExit) as error:
            # Its text may have what the fact has, and a denial is told to models.
            facts[code] = OrderError(f"{one.facts} raised {type(error).__name__}")
    return replace(snapshot, facts=facts)
