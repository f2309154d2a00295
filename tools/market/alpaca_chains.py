"""Alpaca as the source of option chains and prices of contracts, beside a market that has the shares."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from alpaca.common.exceptions import APIError
from alpaca.data.enums import OptionsFeed
from alpaca.data.historical.option import OptionHistoricalDataClient
from alpaca.data.requests import OptionChainRequest, OptionSnapshotRequest
from alpaca.trading.client import TradingClient
from alpaca.trading.requests import GetOptionContractsRequest
from requests import PreparedRequest, Response
from requests.exceptions import ReadTimeout, RequestException

from chordesk.models.errors import DeskError, MarketError, MarketUnavailable, NotConfigured, SettingError
from chordesk.models.market import ChainRow, Greeks, OptionChain, Quote, parse_contract, root_of
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import secret
from chordesk.models.text import NEW_YORK
from chordesk.tools.decimals import finite
from chordesk.tools.market.alpaca_http import Credentials, LimitedAdapter, body_of, limit
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.fetching import REQUEST_SECONDS, AgedCache, Kept, Source
from chordesk.tools.market.protocol import MarketClock, Shares

# Conversion of Alpaca's option snapshots and contracts to the desk's. What Alpaca leaves out stays out.
#
# Alpaca's Greeks are in the desk's own units, so none is converted: theta is for a calendar day, vega and rho for one
# point of volatility and of the rate. Alpaca's reference does not state it; of its own example, AAPL240426C00162500
# with a volatility of .3372, Black-Scholes gives the theta, vega and rho in these units and no others (tests).

Row = dict[str, Any]


def rows_of(snapshots: Mapping[str, Any]) -> list[Row]:
    return [row_of(name, snapshots[name]) for name in sorted(snapshots)]


def row_of(name: str, snapshot: Any) -> Row:
    given = snapshot if isinstance(snapshot, Mapping) else {}
    quote, trade, bar, greeks = (_part(given, key) for key in ("latestQuote", "latestTrade", "dailyBar", "greeks"))
    bid, ask = finite(quote.get("bp")), finite(quote.get("ap"))
    if not ask:  # a side of zero is one without offers: a bid of zero is known to be so beside an ask alone
        bid, ask = bid or None, None
    return {
        "contract": name,
        "bid": bid,
        "ask": ask,
        "quoted": _text(quote.get("t")),
        "last": finite(trade.get("p")),
        "traded": _text(trade.get("t")),
        "volume": finite(bar.get("v")),
        "volumeOf": _text(bar.get("t")),
        "iv": finite(given.get("impliedVolatility")) or None,
        "greeks": {key: finite(greeks.get(key)) for key in Greeks._fields},
    }


def interest_of(contracts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, str]]:
    """Return (open interest, its day) by contract, of those that state both."""
    found = {}
    for row in contracts:
        interest, day = finite(row.get("open_interest")), _text(row.get("open_interest_date"))
        if interest is not None and day is not None and row.get("symbol"):
            found[str(row["symbol"])] = (interest, day)
    return found


def chain_row(row: Row, interest: float | None, session: dt.date) -> ChainRow | None:
    """None if the name is not an OCC symbol. Only volume of the day `session` counts."""
    contract = parse_contract(str(row["contract"]))
    if contract is None:
        return None
    known = row["greeks"]
    greeks = Greeks(**known) if row["iv"] is not None and None not in known.values() else None
    volume = row["volume"] if str(row["volumeOf"])[:10] == session.isoformat() else None
    return ChainRow(contract, row["bid"], row["ask"], row["last"], volume, interest, row["iv"], greeks)


def price_of(row: Row) -> tuple[float, str] | None:
    """Return (price per share, when): between bid and ask where there are both, else the last trade."""
    bid, ask, last = row["bid"], row["ask"], row["last"]
    if bid and ask and bid <= ask and row["quoted"]:
        return round((bid + ask) / 2, 4), row["quoted"]
    return (last, row["traded"]) if last and row["traded"] else None


def _part(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = given.get(key)
    return part if isinstance(part, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


T = TypeVar("T")

DATA_URL = "https://data.alpaca.markets"
# Keys for data are those of a paper account: its trading API has the contracts, and they can move no money.
TRADING_URL = "https://paper-api.alpaca.markets"
ALL_SECONDS = 20.0  # of one question with all its pages
_PAGES, _PAGE = 40, 1000


def data_credentials(environ: Mapping[str, str]) -> Credentials:
    """Raises NotConfigured naming what is missing, SettingError for a file that cannot be used."""
    found = {name: secret(environ, name) for name in Settings.DATA_CREDENTIALS}
    missing = [name for name, value in found.items() if value is None]
    if missing:
        raise NotConfigured(
            f"not available: configure {' and '.join(missing)} for option chains of Alpaca",
            remedy="set the key of a paper account, or its file as NAME_FILE, for the workers; it is read from no .env",
        )
    return Credentials(*(value for value in found.values() if value is not None))


class BoundedAdapter(LimitedAdapter):
    """Limits of one question, over all of its pages: their number and their time."""

    def __init__(self, seconds: float, all_seconds: float, source: Source) -> None:
        super().__init__(seconds)
        self._all_seconds, self._source = all_seconds, source
        self._begun = threading.local()

    def begin(self) -> None:
        self.met().clear()
        self._begun.at = time.monotonic()

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        if len(self.met()) >= _PAGES:
            raise RequestException(f"its pages do not end: {_PAGES} so far")
        if time.monotonic() - self._begun.at > self._all_seconds:
            raise ReadTimeout(f"no whole answer within {self._all_seconds:g} s")
        self._source.wait()
        return super().send(request, *args, **options)


class AlpacaData:
    """Option snapshots and contracts as Alpaca's own mappings. Raises NotConfigured (no key, a refused one, no
    subscription), MarketError (a request that Alpaca cannot fulfil), MarketUnavailable (no usable answer now)."""

    def __init__(
        self,
        url: str | None,
        environ: Mapping[str, str],
        feed: str,
        seconds: float,
        *,
        all_seconds: float = ALL_SECONDS,
    ) -> None:
        self._url, self._environ, self._feed = url, environ, OptionsFeed(feed)
        self._source = Source("Alpaca")
        self._adapter = BoundedAdapter(seconds, all_seconds, self._source)
        self._clients: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> dict[str, Any]:
        wanted = OptionChainRequest(
            underlying_symbol=symbol, feed=self._feed, expiration_date_gte=first, expiration_date_lte=last
        )
        found = self._ask(symbol, lambda data, _: data.get_option_chain(wanted))
        return _mapping(found, symbol)

    def snapshot(self, contract: str) -> dict[str, Any]:
        wanted = OptionSnapshotRequest(symbol_or_symbols=[contract], feed=self._feed)
        return _mapping(self._ask(contract, lambda data, _: data.get_option_snapshot(wanted)), contract)

    def contracts(self, symbol: str, first: dt.date, last: dt.date) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            wanted = GetOptionContractsRequest(
                underlying_symbols=[symbol],
                expiration_date_gte=first,
                expiration_date_lte=last,
                limit=_PAGE,
                page_token=token,
            )
            page = self._ask(symbol, partial(_contracts, wanted), token)
            found = page.get("option_contracts") if isinstance(page, Mapping) else None
            if not isinstance(found, list):
                raise MarketUnavailable(f"Alpaca's answer for {symbol} could not be read: no list of contracts")
            rows += [row for row in found if isinstance(row, dict)]
            token = page.get("next_page_token")
            if not token:
                return rows

    def _ask(self, symbol: str, question: Callable[[Any, Any], T], page: str | None = None) -> T:
        clients = self._made()
        if page is None:
            self._adapter.begin()
        try:
            return question(*clients)
        except APIError as error:
            raise self._error_of(error, symbol) from None
        except RequestException as error:
            raise MarketUnavailable(f"Alpaca does not answer for {symbol}: {_why(error)}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MarketUnavailable(f"Alpaca's answer for {symbol} could not be read: {type(error).__name__}") from None

    def _error_of(self, error: Any, symbol: str) -> DeskError:
        status = int(error.status_code or 0)
        reason = f"{body_of(error)[1]} (HTTP {status})"
        if status == 401:
            names = " and ".join(Settings.DATA_CREDENTIALS)
            return NotConfigured(f"not available: Alpaca refuses the key: {reason}", remedy=f"correct {names}")
        if status == 403:
            remedy = "subscribe at Alpaca" if self._feed is OptionsFeed.INDICATIVE else "set DESK_OPTION_CHAINS=alpaca"
            return NotConfigured(
                f"not available: the key may not read Alpaca's {self._feed.value} options: {reason}", remedy=remedy
            )
        if status == 429:
            return self._source.limited()
        if 400 <= status < 500 and status != 408:
            return MarketError(f"Alpaca has no options of {symbol}: {reason}")
        return MarketUnavailable(f"Alpaca does not answer for {symbol}: {reason}")

    def _made(self) -> tuple[Any, Any]:
        with self._lock:
            if self._clients is None:
                key = data_credentials(self._environ)
                data: Any = OptionHistoricalDataClient(
                    key.key, key.secret, raw_data=True, url_override=self._url or DATA_URL
                )
                trading: Any = TradingClient(key.key, key.secret, raw_data=True, url_override=self._url or TRADING_URL)
                for client, own in ((data, DATA_URL), (trading, TRADING_URL)):
                    client._retry = 0  # after "too many requests", more of them make it worse
                    limit(client, self._adapter, self._url or own)
                self._clients = data, trading
            return self._clients


def _contracts(wanted: GetOptionContractsRequest, _: Any, trading: Any) -> Any:
    return trading.get_option_contracts(wanted)


def _why(error: RequestException) -> str:
    text = str(error.args[0]) if error.args and isinstance(error.args[0], str) else ""
    return text if "pages" in text or "within" in text else type(error).__name__


def _mapping(found: Any, symbol: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise MarketUnavailable(f"Alpaca's answer for {symbol} could not be read: no mapping of contracts")
    return found


QUOTE_AGE = dt.timedelta(minutes=1)
INTEREST_AGE = dt.timedelta(hours=3)  # it is published once a day
FEEDS = {"alpaca": "indicative", "alpaca-opra": "opra"}


def build(settings: Settings, shares: Shares, environ: Mapping[str, str] | None = None) -> AlpacaChains:
    wire = AlpacaData(None, os.environ if environ is None else environ, FEEDS[settings.option_chains], REQUEST_SECONDS)
    return AlpacaChains(settings, shares, wire)


def require_credentials(environ: Mapping[str, str]) -> None:
    """Raise SettingError when a credential for data is missing."""
    try:
        data_credentials(environ)
    except NotConfigured as error:
        raise SettingError(str(error.args[0]), remedy=error.remedy) from None


class AlpacaChains:
    """OptionMarket of one feed: `opra` has the exchanges' quotes, `indicative` quotes that Alpaca calculates.

    Quotes, volatility and Greeks come from the snapshots; open interest from the trading API's contracts, of an earlier
    day, which the chain names.
    """

    def __init__(self, settings: Settings, shares: Shares, wire: AlpacaData) -> None:
        self._feed = FEEDS[settings.option_chains]
        self.name = f"alpaca {self._feed}"
        self._shares, self._wire = shares, wire
        self._clock: MarketClock = shares.clock
        self._cache = AgedCache(settings.home / "cache" / "alpaca")

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Raises NotConfigured under a clock that stands on a past day, MarketError for a symbol without options."""
        if self._clock.day is not None:
            raise NotConfigured("not available: Alpaca's option chains are those of now, none of a past day")
        spot = self._shares.quote(symbol).price
        lacks: tuple[tuple[str, str], ...] = ()
        interest: Mapping[str, Any] = {}
        days_asked = f"{first}-{last}"

        def snapshots(name: str) -> Kept:
            key = f"chain-{self._feed}-{name}-{days_asked}"
            return self._cache.get(key, QUOTE_AGE, lambda: rows_of(self._wire.chain(name, first, last)))

        def interests(name: str) -> Kept:
            key = f"interest-{name}-{days_asked}"
            return self._cache.get(key, INTEREST_AGE, lambda: interest_of(self._wire.contracts(name, first, last)))

        kept = _first_listed(symbol, snapshots)
        try:
            interest = _first_listed(symbol, interests).value
        except DeskError as error:
            lacks = (("openInterest", str(error.args[0])),)
        session = self._volume_day()
        listed = [(row, chain_row(row, interest.get(row["contract"], (None,))[0], session)) for row in kept.value]
        days = [dt.date.fromisoformat(interest[row["contract"]][1]) for row, _ in listed if row["contract"] in interest]
        return OptionChain(
            symbol,
            min(kept.at, self._clock.now()).astimezone(NEW_YORK),
            self.name,
            spot,
            tuple(row for _, row in listed if row is not None),
            tuple(str(row["contract"]) for row, found in listed if found is None),
            self._shares.dividend_yield(symbol),
            interest_day=min(days, default=None),
            lacks=lacks,
        )

    def option_quote(self, contract: str) -> Quote:
        """The middle of bid and ask at the time of that quote, else the last trade. Raises MarketError without
        either."""
        if self._clock.day is not None:
            raise NotConfigured("not available: Alpaca's option quotes are those of now, none of a past day")
        key = f"contract-{self._feed}-{contract}"
        rows = self._cache.get(key, QUOTE_AGE, lambda: rows_of(self._wire.snapshot(contract))).value
        row = next((row for row in rows if row["contract"] == contract), None)
        priced = price_of(row) if row is not None else None
        if row is None or priced is None:
            raise MarketError(f"unknown contract {contract}: Alpaca has no price of it")
        price, at = priced
        both = at == row["quoted"] and row["bid"] and row["ask"]
        moment = min(_moment(at, contract), self._clock.now()).astimezone(NEW_YORK)
        offers = {name: row[name] for name in ("bid", "ask")} if both else {}
        return Quote.model_validate({"symbol": contract, "price": price, "at": moment, "source": self.name, **offers})

    def _volume_day(self) -> dt.date:
        """Return the exchange's day if its session has begun, else its last session."""
        return clock_day(self._clock) if self._clock.is_open() else self._clock.session()


def _first_listed(symbol: str, ask: Callable[[str], Kept]) -> Kept:
    """Return the answer under the first of a share's names that Alpaca lists contracts of, else the last one's."""
    *earlier, final = _names(symbol)
    for name in earlier:
        try:
            if (kept := ask(name)).value:
                return kept
        except (NotConfigured, MarketUnavailable):
            raise
        except MarketError:
            continue
    return ask(final)


def _names(symbol: str) -> list[str]:
    """Return Alpaca's names of a share, the likeliest first: with a dot before its class, then as its contracts' root.
    Its reference has no example of a class."""
    return list(dict.fromkeys((symbol.replace("-", "."), root_of(symbol))))


def _moment(text: str, contract: str) -> dt.datetime:
    """Return a time of Alpaca's, which has nanoseconds, as Python reads it."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise MarketUnavailable(f"Alpaca's answer for {contract} could not be read: the time {text!r}") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
