"""The live market of Yahoo Finance through yfinance: delayed prices, headlines, company sections and option chains,
cached."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from chordesk.models.answers import Wire
from chordesk.models.company import (
    EarningsDate,
    Holder,
    InsiderTrade,
    PriceTargets,
    RatingChange,
    ShortInterest,
    Timing,
)
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.exchanges import HOME, currency_of, exchange_code, shown_exchange
from chordesk.models.features import require_source
from chordesk.models.market import Headline, Listing, OptionChain, Quote, parse_contract, root_of
from chordesk.models.money import FxRate, parse_pair
from chordesk.models.settings import Settings
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.actions import is_split
from chordesk.tools.market.clock import LiveClock, day_of, exchange_hours, usual_close, usual_open, zone_of
from chordesk.tools.market.factory import MARKETS_OWN, build_chains
from chordesk.tools.market.fetching import AgedCache, Kept
from chordesk.tools.market.home import require_traded
from chordesk.tools.market.prices import MINUTES, STALE_DAYS, IntradayInterval, intraday_of
from chordesk.tools.market.protocol import Action, Bars, Floats, Intraday, MarketClock, OptionMarket, Shares
from chordesk.tools.market.units import has_parts
from chordesk.tools.market.yahoo import wire as shapes
from chordesk.tools.market.yahoo.wire import Section, YahooWire, headlines_of, plain, section_of

# Conversion of what yfinance gives of a company to plain rows under the desk's names, and of those to the desk's rows.
# Fields that Yahoo leaves out stay out; a row without its date or its subject is left out.

W = TypeVar("W", bound=Wire)
Row = Mapping[str, Any]

_REPORTS = {"eps_estimate": "EPS Estimate", "eps_actual": "Reported EPS"}
_CHANGES = {
    "firm": "Firm", "rating": "ToGrade", "prior_rating": "FromGrade", "action": "Action",
    "target": "currentPriceTarget", "prior_target": "priorPriceTarget",
}  # fmt: skip
_TRADES = {"insider": "Insider", "position": "Position", "text": "Text", "shares": "Shares", "value": "Value"}
_HOLDINGS = {"holder": "Holder", "shares": "Shares", "of_outstanding": "pctHeld", "change": "pctChange"}
_SHORTS = {
    "shares_short": "sharesShort", "ratio": "shortRatio", "of_float": "shortPercentOfFloat",
    "of_outstanding": "sharesPercentSharesOut", "prior_shares_short": "sharesShortPriorMonth",
}  # fmt: skip
_TARGETS = {
    "mean": "targetMeanPrice", "median": "targetMedianPrice", "low": "targetLowPrice", "high": "targetHighPrice",
    "analysts": "numberOfAnalystOpinions", "rating": "recommendationKey", "mean_rating": "recommendationMean",
}  # fmt: skip


def _rows(frame: Any, names: Mapping[str, str], date: str | None = None) -> list[Section]:
    """Return the rows of a frame under our names, with the time `at` as ISO text, out of a column or the index."""
    if frame is None or frame.empty:
        return []
    stamps = frame.index if date is None else frame[date]
    return [
        {"at": stamp.isoformat(), **_named(row, names)}
        for stamp, row in zip(stamps, frame.to_dict("records"), strict=True)
        if stamp == stamp
    ]


def _named(row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    return {ours: plain(row.get(theirs)) for ours, theirs in names.items()}


def _made(kind: type[W], rows: Iterable[Row], **common: Any) -> list[W]:
    """Return rows of the desk; one that Yahoo's figures do not make, such as one without a date, is left out."""
    made = []
    for row in rows:
        with suppress(ValidationError):
            made.append(kind.model_validate({**common, **row}))
    return made


def _without_targets(row: Section, symbol: str) -> Section:
    """Yahoo does not say whether a broker's target of a share that is quoted in pence is in pence."""
    return {**row, "target": None, "prior_target": None} if has_parts(currency_of(symbol)) else row


def _dated(rows: Iterable[Row]) -> list[Section]:
    return [{"date": str(row["at"])[:10], **{name: row[name] for name in row if name != "at"}} for row in rows]


def earnings_of(symbol: str, reports: Iterable[Row], info: Row, at: dt.datetime) -> list[EarningsDate]:
    """Return one row a date: those of the calendar, and the next date of `info`, which may be a window."""
    exchange = exchange_code(symbol)
    zone = zone_of(exchange)
    found = {row.date: row for row in _made(EarningsDate, _upcoming(info, exchange), symbol=symbol, known_at=at)}
    for report in reports:
        moment = dt.datetime.fromisoformat(str(report["at"])).astimezone(zone)
        named = {name: value for name, value in report.items() if name != "at"}
        row = {"date": moment.date(), "timing": _timing(moment, exchange), **named}
        if (other := found.get(moment.date())) is not None:
            row |= {"until": other.until, "confirmed": other.confirmed}
        found |= {made.date: made for made in _made(EarningsDate, [row], symbol=symbol, known_at=at)}
    return list(found.values())


def _upcoming(info: Row, exchange: str) -> list[Row]:
    start, end = (
        _moment(info.get(name), zone_of(exchange)) for name in ("earningsTimestampStart", "earningsTimestampEnd")
    )
    if start is None:
        return []
    until = end.date() if end is not None and end.date() > start.date() else None
    estimated = info.get("isEarningsDateEstimate")
    confirmed = not estimated if isinstance(estimated, bool) else None
    timing = _timing(start, exchange) if until is None else None
    return [{"date": start.date(), "until": until, "timing": timing, "confirmed": confirmed}]


def _timing(moment: dt.datetime, exchange: str) -> Timing | None:
    """Return where in the exchange's day a report is; None for midnight, which stands for an hour that is not known."""
    if moment.time() == dt.time():
        return None
    if moment < usual_open(moment.date(), exchange):
        return "beforeOpen"
    return "afterClose" if moment >= usual_close(moment.date(), exchange) else "duringSession"


def _side(text: object) -> Literal["buy", "sell"] | None:
    begins: Callable[[str], bool] = str(text).startswith
    return "sell" if begins("Sale") else "buy" if begins("Purchase") else None


def _moment(value: Any, zone: dt.tzinfo) -> dt.datetime | None:
    seconds = plain(value)
    return dt.datetime.fromtimestamp(seconds, zone) if isinstance(seconds, float) else None


def _utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def _utc_day(value: Any) -> dt.date | None:
    """Return the date that Yahoo writes as the midnight of UTC."""
    moment = _moment(value, dt.UTC)
    return moment and moment.date()


NEWS_AGE = dt.timedelta(minutes=10)
RESEARCH_AGE = dt.timedelta(hours=6)
INFO_AGE = dt.timedelta(hours=12)
_NEWS_COUNT = 25


class YahooCompanies:
    """What Yahoo has beside prices. What it has of now alone is refused under a clock that stands on
    a past day; without a publication time of its own, a row was known when it was fetched."""

    name = "yahoo"

    def __init__(self, home: Path, clock: MarketClock, wire: YahooWire) -> None:
        self.clock = clock
        self._wire = wire
        self._cache = AgedCache(home / "cache" / "yahoo")

    def listing(self, symbol: str) -> Listing:
        info = self._info(symbol).value
        name = info.get("longName") or info.get("shortName")
        kind = {"kind": "etf"} if info.get("quoteType") == "ETF" and exchange_code(symbol) != HOME else {}
        return Listing(symbol=symbol, name=name, sector=info.get("sector"), industry=info.get("industry"), **kind)

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        stream = self._cache.get(f"news-{symbol}", NEWS_AGE, lambda: self._wire.news(symbol, _NEWS_COUNT)).value
        now = self.clock.now()
        published = [row for row in headlines_of(symbol, stream) if row.published_at <= now]
        return sorted(published, key=lambda row: row.published_at, reverse=True)[:limit]

    def section(self, symbol: str, section: str) -> Section:
        kept = self._info(symbol)
        found = section_of(kept.value, section)
        if found is None:
            raise MarketError(f"Yahoo has no {section} of {symbol}")
        return {**found, "knownAt": self._at(kept).isoformat()}

    def earnings(self, symbol: str) -> list[EarningsDate]:
        """Dates of the calendar and of the company's page: what one of them has where the other fails. Raises if both
        fail."""
        self._require_now("earnings dates")
        asks: Sequence[Callable[[str], Kept]] = (self._reports, self._info)
        found: list[Kept | None] = []
        failed: list[DeskError] = []
        for ask in asks:
            try:
                found.append(ask(symbol))
            except DeskError as error:
                found.append(None)
                failed.append(error)
        reports, info = found
        if reports is None and info is None:
            raise failed[0]
        at = min(self._at(kept) for kept in found if kept is not None)
        return earnings_of(symbol, reports.value if reports else [], info.value if info else {}, at)

    def short_interest(self, symbol: str) -> list[ShortInterest]:
        self._require_now("short interest")
        info = self._info(symbol)
        days = {"date": "dateShortInterest", "prior_date": "sharesShortPreviousMonthDate"}
        dated = {ours: _utc_day(info.value.get(theirs)) for ours, theirs in days.items()}
        row = dated | _named(info.value, _SHORTS)
        return _made(ShortInterest, [row], symbol=symbol, known_at=self._at(info))

    def rating_changes(self, symbol: str) -> list[RatingChange]:
        """Return the changes, each known from its own time on; a target of 0 is left out."""
        self._require_now("analyst ratings")
        kept = self._kept("grades", symbol, lambda symbol: _rows(self._wire.ratings(symbol), _CHANGES))
        return [
            made
            for at, row in ((row["at"], {name: row[name] or None for name in _CHANGES}) for row in kept.value)
            for made in _made(RatingChange, [_without_targets(row, symbol)], symbol=symbol, known_at=_utc(at))
        ]

    def price_targets(self, symbol: str) -> list[PriceTargets]:
        self._require_now("analyst ratings")
        info = self._info(symbol)
        given = _named(info.value, _TARGETS)
        known = any(value is not None for name, value in given.items() if name != "analysts")
        return _made(PriceTargets, [given] if known else [], symbol=symbol, known_at=self._at(info))

    def insider_trades(self, symbol: str) -> list[InsiderTrade]:
        kept = self._owners("insider trades", symbol)
        rows = [{**row, "side": _side(row["text"])} for row in _dated(kept.value["trades"])]
        return _made(InsiderTrade, rows, symbol=symbol, known_at=self._at(kept))

    def holders(self, symbol: str) -> list[Holder]:
        kept = self._owners("institutional holders", symbol)
        return _made(Holder, _dated(kept.value["holders"]), symbol=symbol, known_at=self._at(kept))

    def _require_now(self, what: str) -> None:
        if self.clock.day is not None:
            raise NotConfigured(f"not available in a replay: Yahoo has the {what} of now alone, none of a past day")

    def _at(self, kept: Kept) -> dt.datetime:
        return min(kept.at, self.clock.now())

    def _kept(self, kind: str, symbol: str, fetch: Callable[[str], Any]) -> Kept:
        return self._cache.get(f"{kind}-{symbol}", RESEARCH_AGE, lambda: fetch(symbol))

    def _info(self, symbol: str) -> Kept:
        return self._cache.get(f"info-{symbol}", INFO_AGE, lambda: self._wire.info(symbol))

    def _owners(self, what: str, symbol: str) -> Kept:
        self._require_now(what)
        return self._kept("owned", symbol, self._fetch_owners)

    def _reports(self, symbol: str) -> Kept:
        return self._kept("reports", symbol, lambda symbol: _rows(self._wire.earnings(symbol), _REPORTS))

    def _fetch_owners(self, symbol: str) -> dict[str, list[Section]]:
        trades, holders = self._wire.owners(symbol)
        return {"trades": _rows(trades, _TRADES, "Start Date"), "holders": _rows(holders, _HOLDINGS, "Date Reported")}


OPTIONS_AGE = dt.timedelta(minutes=30)


class YahooChains:
    """OptionMarket of Yahoo. share_of: the symbol of the share that a contract's root names, such as BRK.B of BRKB."""

    name = "yahoo"

    def __init__(self, shares: Shares, wire: YahooWire, cache: AgedCache, share_of: Callable[[str], str]) -> None:
        self._shares, self._wire, self._cache, self._share_of = shares, wire, cache, share_of

    def option_quote(self, contract: str) -> Quote:
        """Return the price midway between bid and ask, at the time of the fetch; the last trade where there are not
        both."""
        found = parse_contract(contract)
        if found is None:
            raise MarketError(f"{contract} is no OCC symbol of an option contract")
        expiry = found.expiry.isoformat()
        kept = self._contracts(self._share_of(found.underlying), expiry)
        rows = [row for row in kept.value if row["contract"] == contract]
        if any(row != rows[0] for row in rows):
            raise MarketError(f"Yahoo lists {contract} {len(rows)} times, with differing prices")
        priced = shapes.contract_price(rows[0]) if rows else None
        if priced is None:
            raise MarketError(f"unknown contract {contract}: Yahoo has no price of it")
        price, traded = priced
        offers = {name: rows[0][name] or None for name in ("bid", "ask")} if traded is None else {}
        at = kept.at if traded is None else dt.datetime.fromisoformat(traded)
        at = min(at, self._shares.clock.now()).astimezone(NEW_YORK)
        return Quote.model_validate({"symbol": contract, "price": price, "at": at, "source": self.name, **offers})

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the contracts that Yahoo lists now. Raises NotConfigured under a clock that stands on a past day."""
        if self._shares.clock.day is not None:
            raise NotConfigured("not available: Yahoo has the option chains of now alone, none of a past day")
        expiries: list[str] = self._cache.get(
            f"expiries-{symbol}", OPTIONS_AGE, lambda: list(self._wire.expiries(symbol))
        ).value
        if not expiries:
            raise MarketError(f"Yahoo has no options of {symbol}")
        wanted = [day for day in expiries if first.isoformat() <= day <= last.isoformat()]
        kept = [self._contracts(symbol, day) for day in wanted]
        listed = [(row, shapes.chain_row(row)) for one in kept for row in one.value]
        at = min((one.at for one in kept), default=self._shares.clock.now()).astimezone(NEW_YORK)
        rows = tuple(row for _, row in listed if row is not None)
        unread = tuple(str(row["contract"]) for row, found in listed if found is None)
        spot = self._shares.quote(symbol).price
        return OptionChain(symbol, at, self.name, spot, rows, unread, self._shares.dividend_yield(symbol))

    def _contracts(self, underlying: str, expiry: str) -> Kept:
        key = f"chain-{underlying}-{expiry}"
        return self._cache.get(key, QUOTE_AGE, lambda: self._fetch_contracts(underlying, expiry))

    def _fetch_contracts(self, underlying: str, expiry: str) -> list[Section]:
        if expiry not in self._wire.expiries(underlying):
            return []
        return shapes.contracts_of(*self._wire.chain(underlying, expiry))


BARS_AGE = dt.timedelta(minutes=15)
QUOTE_AGE = dt.timedelta(minutes=1)
INTRADAY_AGE = dt.timedelta(minutes=5)
RATE_AGE = dt.timedelta(minutes=5)
_RATES_END = dt.time(17)  # in New York, when a day of exchange rates ends
# Calendar days: quarters of an hour reach back 60 at Yahoo, hours 730, more than a chart has use for.
_INTRADAY_DAYS: Mapping[IntradayInterval, int] = {"hour": 160, "15min": 58}
_FETCHERS = 8
_MOST_DECIMALS = 8
_LEAST_PART = Decimal(1).scaleb(-_MOST_DECIMALS)  # of a coin
# The chain that is looked at is the first with so many days left: nearer ones are mostly noise.
_DAYS_TO_EXPIRY = 20


def build(settings: Settings, day: dt.date | None) -> YahooMarket:
    require_source("yahoo")
    market = build_yahoo(settings.home, LiveClock(settings.exchange))
    if settings.option_chains != MARKETS_OWN:
        market.options = build_chains(settings, market)
    return market


def build_yahoo(home: Path, clock: MarketClock, session: Any | None = None) -> YahooMarket:
    return YahooMarket(home, clock, YahooWire(home, session))


@cache
def _sp500() -> tuple[Listing, ...]:
    lines = Path(__file__).with_name("sp500.txt").read_text(encoding="utf-8").splitlines()
    groups = (line.split(": ") for line in lines if not line.startswith("#"))
    found = [Listing(symbol=symbol, sector=sector) for sector, symbols in groups for symbol in symbols.split()]
    return tuple(sorted(found, key=lambda listing: listing.symbol))


@cache
def _roots() -> dict[str, str]:
    return {root_of(listing.symbol): listing.symbol for listing in _sp500()}


def _share_of(root: str) -> str:
    """Return the share that the contracts of a root are on: that of the list with this root, else one of this name."""
    return _roots().get(root, root)


def _steps_of(listing: Listing, decimals: object) -> dict[str, Decimal]:
    """Return by what a pair is traded on paper: Yahoo's prices are of no venue that would state its steps. Prices have
    the decimals that Yahoo writes, quantities eight, as the parts of a coin are counted. Nothing where Yahoo states
    what is no number of decimals, so that nothing is opened at steps that nobody stated."""
    if listing.kind != "crypto" or not isinstance(decimals, float) or decimals not in range(_MOST_DECIMALS + 1):
        return {}
    return {"price_step": Decimal(1).scaleb(-int(decimals)), "quantity_step": _LEAST_PART, "lot": _LEAST_PART}


class YahooMarket(YahooCompanies):
    """MarketData of Yahoo; also a FillSource with the last quote as fill price, and a source of what it knows of
    companies.

    Yahoo lists no universe: sp500 is the list in `sp500.txt`, which carries its date. options: Yahoo's own chains,
    unless the settings name another source of them.
    """

    def __init__(self, home: Path, clock: MarketClock, wire: YahooWire) -> None:
        super().__init__(home, clock, wire)
        self.options: OptionMarket = YahooChains(self, self._wire, self._cache, _share_of)

    def universe(self, name: str) -> list[Listing]:
        if name != "sp500":
            raise MarketError(f"no universe named {name!r}; there is sp500")
        if (own := self.clock.exchange) != HOME:
            reason = f"{name} is of New York, and this run is of {shown_exchange(own)}"
            raise MarketError(reason, remedy="set DESK_UNIVERSE to symbols by comma, or to a file with one a line")
        return list(_sp500())

    def listing(self, symbol: str) -> Listing:
        """Return what Yahoo says of a symbol, in the currency of its prices, which may be another than its exchange's:
        CSPX.L is in dollars. That is known by its chart, also where Yahoo has no page of it."""
        if exchange_code(symbol) == HOME:
            return super().listing(symbol)
        try:
            found = super().listing(symbol)
        except DeskError:
            found = Listing(symbol=symbol)
        kept = self._history(symbol, BARS_AGE).value
        return found.model_copy(update={"currency": kept["currency"], **_steps_of(found, kept["decimals"])})

    def sessions(self, count: int) -> Sequence[dt.date]:
        return exchange_hours(self.clock.exchange).until(self.clock.session(), count)

    def bars(self, symbol: str, sessions: int) -> Bars:
        """Return bars up to the last closed session, adjusted as of it: today's bar is not one before the close."""
        found, factor = self._bars(symbol, sessions)
        scale = factor / factor[-1]
        prices = {name: getattr(found, name) * scale for name in ("open", "high", "low", "close")}
        return replace(found, adjusted=True, **prices)

    def traded(self, symbol: str, sessions: int) -> Bars:
        return self._bars(symbol, sessions)[0]

    def actions(self, symbol: str, since: dt.date) -> Sequence[Action]:
        """Return splits and dividends. Yahoo lists a dividend in shares of today, here it is for one share of the
        evening before; it lists a spin-off as a split of an odd ratio, here it is cash."""
        try:
            kept = self._history(symbol, BARS_AGE).value
        except DeskError:
            return ()
        today, found = day_of(self.clock.now(), symbol), []
        for at, (day, split, paid) in enumerate(zip(kept["date"], kept["split"], kept["dividend"], strict=True)):
            if at and (split or paid) and str(since) < day <= str(today):
                before = kept["close"][at - 1]
                ratio = split or 1.0
                later = math.prod(one for one in kept["split"][at + 1 :] if one)
                growth = ratio * before / max(before - paid, paid)
                cash = paid * ratio * later
                if not is_split(ratio):  # what was spun off, in cash
                    cash, ratio = cash + before * (ratio - 1) * later, 1.0
                found.append(Action(dt.date.fromisoformat(day), ratio, cash, growth))
        return found

    def _bars(self, symbol: str, sessions: int) -> tuple[Bars, Floats]:
        kept = self._history(symbol, BARS_AGE).value
        dates = [dt.date.fromisoformat(day) for day in kept["date"]]
        last = self.clock.session(exchange_code(symbol))
        end = sum(day <= last for day in dates)
        if end == 0:
            raise MarketError(f"unknown symbol {symbol}: Yahoo has no prices of it")
        rows = slice(max(end - sessions, 0), end)
        figures = (np.array(kept[name][rows]) for name in ("open", "high", "low", "close", "volume"))
        factor = np.array(kept["adjusted"][rows]) / np.array(kept["close"][rows])
        return Bars(symbol, dates[rows], False, *figures), factor

    def intraday(self, symbol: str, interval: IntradayInterval, sessions: int) -> Intraday:
        """Return bars as they were when they were fetched, at most some minutes ago. Yahoo adjusts them for splits and
        not for dividends."""
        minutes = MINUTES[interval]
        kept = self._cache.get(
            f"{interval}-{symbol}",
            INTRADAY_AGE,
            lambda: self._wire.intraday(symbol, minutes, _INTRADAY_DAYS[interval]),
        )
        if not kept.value["start"]:
            raise MarketError(f"Yahoo has no intraday bars of {symbol}")
        starts = [
            dt.datetime.fromisoformat(start).astimezone(zone_of(exchange_code(symbol))) for start in kept.value["start"]
        ]
        until = min(kept.at, self.clock.now())
        return intraday_of(symbol, kept.value, starts, minutes, sessions, until, self.clock.day is None)

    def quote(self, symbol: str) -> Quote:
        """The newest price; within a session that of the fetch, at most a minute and Yahoo's delay old."""
        kept = self._history(symbol, QUOTE_AGE)
        exchange = exchange_code(symbol)
        now = self.clock.now().astimezone(zone_of(exchange))
        rows = zip(kept.value["date"], kept.value["close"], strict=True)
        day, price = max(((day, price) for day, price in rows if day <= str(now.date())), default=(None, None))
        if day is None or price is None:
            raise MarketError(f"unknown symbol {symbol}: Yahoo has no prices of it")
        last = dt.date.fromisoformat(day)
        if (now.date() - last).days > STALE_DAYS:
            raise MarketError(f"{symbol} has not traded since {last}")
        at = min(kept.at, usual_close(last, exchange), now).astimezone(now.tzinfo)
        return Quote(symbol=symbol, price=price, at=at, source=self.name)

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        """The newest rate of a pair, at most some minutes old while currencies trade; it has no other."""
        currency, base = parse_pair(pair)
        kept = self._cache.get(f"fx-{currency}-{base}", RATE_AGE, lambda: self._wire.rate(currency, base))
        ended = dt.datetime.combine(dt.date.fromisoformat(kept.value["day"]), _RATES_END, NEW_YORK)
        told = kept.value["at"]
        known = dt.datetime.fromtimestamp(told, dt.UTC) if told else ended
        return FxRate(currency, base, kept.value["rate"], min(known, kept.at), "Yahoo")

    def section(self, symbol: str, section: str) -> Section:
        if section != "options":
            return super().section(symbol, section)
        kept = self._cache.get(f"options-{symbol}", OPTIONS_AGE, lambda: self._fetch_options(symbol))
        if kept.value is None:
            raise MarketError(f"Yahoo has no options of {symbol}")
        return {**kept.value, "knownAt": self._at(kept).isoformat()}

    def fill_price(self, symbol: str) -> Quote | None:
        quote, today = self.quote(symbol), day_of(self.clock.now(), symbol)
        if (last := day_of(quote.at, symbol)) < today:
            raise MarketError(f"{symbol} has not traded on {today}; its last price is of {last}")
        return quote

    def option_quote(self, contract: str) -> Quote:
        return self.options.option_quote(contract)

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        return self.options.chain(symbol, first, last)

    def dividend_yield(self, symbol: str) -> float | None:
        """Return Yahoo's yearly dividend over the price. Its own yield is a percentage in some answers and a fraction
        in others."""
        try:
            return shapes.dividend_yield(self._info(symbol).value, self.quote(symbol).price)
        except DeskError:
            return None

    def prefetch(self, symbols: Sequence[str], seconds: float) -> None:
        pool = concurrent.futures.ThreadPoolExecutor(_FETCHERS, thread_name_prefix="yahoo")
        try:
            concurrent.futures.wait([pool.submit(self._try_history, symbol) for symbol in symbols], seconds)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _try_history(self, symbol: str) -> None:
        with suppress(DeskError):
            self._history(symbol, BARS_AGE)

    def _history(self, symbol: str, age: dt.timedelta) -> Kept:
        require_traded(symbol)  # also of bars that were kept before
        return self._cache.get(f"daily-{symbol}", age, lambda: self._wire.history(symbol))

    def _fetch_options(self, symbol: str) -> Section | None:
        expiries = self._wire.expiries(symbol)
        if not expiries:
            return None
        earliest = (self.clock.now() + dt.timedelta(days=_DAYS_TO_EXPIRY)).date().isoformat()
        expiry = next((day for day in expiries if day >= earliest), expiries[-1])
        calls, puts = self._wire.chain(symbol, expiry)
        return shapes.options_of(calls, puts, self.quote(symbol).price, expiry)
