"""One venue through ccxt: each request once, within a time limit, and each failure as one error with its remedy.

ccxt retries nothing here. What a venue refuses by a reason of its own is `VenueRefused`; anything else that is no
answer (a timeout, a cut, half a body, an error of the server, a limit of requests) is `VenueSilent`: what became of the
request is not known.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from chordesk.plugins import MarketError, MarketUnavailable, OutOfTime, Pace, Source, exact, retry_after, within

REQUEST_SECONDS = 10.0  # of one request, from connecting to the last byte of its answer
MARKETS_SECONDS = 60.0  # of the list of all pairs, some megabytes at the large venues
MARKETS_AGE = 6 * 3600.0
CLOCK_AGE = 3600.0
CLOCK_SECONDS = 30.0  # that the venue's clock and this machine's may be apart
# Requests a second and at once. Kraken counts a private question as one and forgets one in three seconds.
PACES = {"kraken": Pace(1.0, 12), "binance": Pace(10.0, 40)}
PACE = Pace(2.0, 10)
_NONCES = 5  # numbers that a request is tried with
_MOST = 200  # characters of a venue's text
_DEFINITE = (
    "InvalidOrder", "InsufficientFunds", "BadRequest", "AuthenticationError", "OperationRejected", "NotSupported",
)  # fmt: skip
# What Kraken says by other words than those that ccxt knows, each before anything is done.
_REFUSALS = re.compile(
    r"E(Order|Trade|Query|Funding|Account):|EGeneral:(Invalid|Permission|Unknown)|EAPI:Invalid (key|sig)"
)


class VenueSilent(MarketUnavailable):
    """No answer that can be used: what became of the request is not known."""


class VenueRefused(MarketError):
    """The venue said no."""


class _NonceTaken(VenueSilent):
    """A signed request whose number another process has overtaken: it was refused before it was read."""


class Pair(NamedTuple):
    """A pair as its venue trades it. cost: the least worth of an order, in the second currency. maker, taker: the fees
    of the lowest tier as fractions; None where the venue does not say."""

    symbol: str
    id: str
    base: str
    quote: str
    active: bool
    price_step: Decimal | None
    quantity_step: Decimal | None
    least: Decimal | None
    cost: Decimal | None
    maker: float | None
    taker: float | None
    types: tuple[str, ...]  # of orders, where the venue says
    names: tuple[str, ...]  # by which the venue names it in its answers


@cache
def source_of(venue: str) -> Source:
    return Source(venue.capitalize(), PACES.get(venue, PACE))


def client_of(venue: str, config: Mapping[str, Any]) -> Any:
    """Return ccxt's client of a venue, which keeps the status of its last answer. Raises MarketError for one that ccxt
    does not know."""
    import ccxt  # 76 MB and two seconds

    # It writes the headers of each request, the key among them, at the level of debugging.
    logging.getLogger("ccxt").setLevel(logging.WARNING)
    if venue not in ccxt.exchanges:
        some = "kraken, binance, bitstamp, coinbase"
        raise MarketError(f"ccxt knows no venue {venue!r}", remedy=f"set DESK_CCXT_VENUE to one such as {some}")

    class Client(getattr(ccxt, venue)):  # type: ignore[misc]
        status, headers_of_answer = 0, {}

        def on_rest_response(self, code: int, reason: str, url: str, method: str, headers: Any, *rest: Any) -> Any:
            self.status, self.headers_of_answer = code, headers
            return super().on_rest_response(code, reason, url, method, headers, *rest)

        def parse_json(self, text: str) -> Any:
            """What is no JSON would become an empty list of candles, or an order without fills."""
            found = super().parse_json(text)
            if not isinstance(found, dict | list):
                raise ccxt.BadResponse("an answer that is no JSON")
            return found

    return Client({"enableRateLimit": False, **config})


class Venue:
    """Threads share it, and one of them asks at a time: a venue takes the numbers of signed requests in their order."""

    def __init__(
        self, name: str, *, key: str = "", secret: str = "", url: str = "", play: bool = False, seconds: float = 0.0
    ) -> None:
        self.name, self.title = name, name.capitalize()
        self._config = {"apiKey": key, "secret": secret}
        self.play = play
        self._url, self._seconds = url, seconds or REQUEST_SECONDS
        self._lock = threading.RLock()
        self._client: Any = None
        self._pairs: dict[str, Pair] = {}
        self._symbols: dict[str, str] = {}
        self._pairs_at = self._clock_at = -1e9

    def __repr__(self) -> str:
        return f"Venue({self.name})"

    def pairs(self) -> Mapping[str, Pair]:
        """Return the venue's pairs by the desk's symbols; at most some hours old."""
        with self._lock:
            if not self._pairs or time.monotonic() - self._pairs_at > MARKETS_AGE:
                rows = self.ask("load_markets", True, seconds=max(MARKETS_SECONDS, self._seconds))
                if not isinstance(rows, dict):
                    raise self._unread("list of pairs")
                found = [_pair_of(row) for row in rows.values() if row.get("spot")]
                self._pairs = {pair.symbol: pair for pair in found}
                self._symbols = {name: pair.symbol for pair in found for name in pair.names}
                self._pairs_at = time.monotonic()
                if not self._pairs:
                    raise VenueSilent(f"{self.title} lists no pair", remedy="try again; its status page says more")
            return self._pairs

    def coins(self) -> set[str]:
        return {coin for pair in self.pairs().values() for coin in (pair.base, pair.quote)}

    def symbol_of(self, name: str) -> str:
        """Return the desk's symbol by one of the venue's names of a pair. Raises KeyError."""
        with self._lock:
            self.pairs()
            return self._symbols[name]

    def pair(self, symbol: str) -> Pair:
        """Raises MarketError for a symbol that the venue does not have, or lists no more."""
        found = self.pairs().get(symbol)
        if found is None:
            base = symbol.partition("-")[0]
            others = [other for other in self._pairs if other.startswith(f"{base}-")][:5]
            remedy = f"leave it out, or take {', '.join(others)}" if others else "leave it out"
            raise MarketError(f"unknown symbol {symbol}: {self.title} has no such pair", remedy=remedy)
        if not found.active:
            raise MarketError(f"{self.title} trades {symbol} no more, or not now", remedy="leave it out")
        return found

    def require_clock(self) -> None:
        """Raise MarketError where the venue's clock and this machine's are far apart: days would end at another time,
        and what is signed would be refused."""
        with self._lock:
            if time.monotonic() - self._clock_at < CLOCK_AGE or not self.client().has.get("fetchTime"):
                return
            told = self.ask("fetch_time")
            if not isinstance(told, int | float):
                raise self._unread("time")
            apart = told / 1000 - time.time()
            if abs(apart) > CLOCK_SECONDS:
                ours = time.strftime("%H:%M:%S", time.gmtime())
                theirs = time.strftime("%H:%M:%S", time.gmtime(told / 1000))
                reason = f"it is {theirs} UTC at {self.title} and {ours} UTC on this machine, {abs(apart):.0f} s apart"
                raise MarketUnavailable(reason, remedy="set this machine's clock by NTP, then try again")
            self._clock_at = time.monotonic()

    def client(self) -> Any:
        if self._client is None:
            options = {"fetchMarkets": {"types": ["spot"]}, "fetchMargins": False, "fetchCurrencies": False}
            made = client_of(self.name, {**self._config, "options": options})
            made.timeout = int(self._seconds * 1000)
            if self.play:
                made.set_sandbox_mode(True)
            if self._url:
                made.urls["api"] = _placed(made.urls["api"], self._url)
            self._client = made
        return self._client

    def ask(self, method: str, *arguments: Any, seconds: float = 0.0) -> Any:
        """Return what a method of ccxt's client returns. Raises VenueRefused and VenueSilent."""
        for left in reversed(range(_NONCES)):
            source_of(self.name).wait()
            try:
                return self._once(method, arguments, seconds or self._seconds)
            except _NonceTaken as taken:
                if not left:
                    raise VenueSilent(*taken.args, remedy=taken.remedy) from None
        raise AssertionError("not reached")

    def _once(self, method: str, arguments: tuple[Any, ...], limit: float) -> Any:
        with self._lock:
            client = self.client()
            client.status, client.headers_of_answer = 0, {}
            call = getattr(client, method)
            try:
                return within(limit, lambda: call(*arguments), f"ccxt-{self.name}")
            except OutOfTime:
                self._client = None  # the thread that was left behind goes on with this one
                reason = f"{self.title} gave no whole answer within {limit:g} s"
                raise VenueSilent(reason, remedy="try again in a minute") from None
            except Exception as error:
                raise self._error(error, client) from None

    def _error(self, error: Exception, client: Any) -> Exception:
        import ccxt

        if not isinstance(error, ccxt.BaseError):
            return self._unread("answer")
        text, status = self._text_of(error), int(client.status or 0)
        if "Invalid nonce" in text:
            reason = f"{self.title} refuses the number of the request: {text}"
            return _NonceTaken(reason, remedy="give each program that trades there a key of its own")
        if status in (418, 429) or isinstance(error, ccxt.DDoSProtection | ccxt.RateLimitExceeded):
            limited = source_of(self.name).limited(retry_after(client.headers_of_answer.get("Retry-After")))
            return VenueSilent(str(limited.args[0]), remedy=limited.remedy)
        definite = isinstance(error, tuple(getattr(ccxt, name) for name in _DEFINITE)) or _REFUSALS.search(text)
        if definite and (status == 0 or 200 <= status < 500) and status != 408:
            return VenueRefused(f"{self.title} refuses: {text}", remedy=_remedy(error, ccxt))
        if status == 0 or isinstance(error, ccxt.RequestTimeout):
            # Its own text has the address of the request.
            kind = type(error).__name__
            return VenueSilent(f"no answer from {self.title}: {kind}", remedy="try again; its status page says more")
        if status < 300:
            return VenueSilent(f"{self.title} answers: {text}", remedy="try again in a minute")
        return VenueSilent(f"{self.title} answers HTTP {status}: {text}", remedy="try again in a minute")

    def _text_of(self, error: Exception) -> str:
        """Return the venue's own words, without the address of a request and what is in it."""
        told = str(error).removeprefix(f"{self.name} ")
        if found := re.search(r'"(?:error|msg|message)":\s*(\[[^\]]*\]|"[^"]*")', told):
            told = found[1].strip('[]"').replace('"', "")
        elif "http" in told:
            told = type(error).__name__
        for secret in self._config.values():
            told = told.replace(secret, "...") if secret else told
        return told[:_MOST] or type(error).__name__

    def _unread(self, what: str) -> VenueSilent:
        return VenueSilent(f"the {what} of {self.title} cannot be read", remedy="try again in a minute")


def _remedy(error: Exception, ccxt: Any) -> str:
    if isinstance(error, ccxt.AuthenticationError):
        return "look at the rights and the addresses of the key at the venue"
    if isinstance(error, ccxt.InsufficientFunds):
        return "order less, or pay in"
    return ""


def _placed(urls: Any, place: str) -> Any:
    """Return a client's addresses at a stand-in: each keeps its path."""
    if isinstance(urls, dict):
        return {name: _placed(url, place) for name, url in urls.items()}
    return re.sub(r"https?://[^/]+", place.rstrip("/"), urls) if isinstance(urls, str) else urls


def _pair_of(row: Mapping[str, Any]) -> Pair:
    precision, limits, info = row.get("precision") or {}, row.get("limits") or {}, row.get("info") or {}
    tick = info.get("tick_size") if isinstance(info, dict) else None  # Kraken's, coarser than the decimals of a price
    return Pair(
        symbol=f"{row['base']}-{row['quote']}",
        id=str(row["id"]),
        base=row["base"],
        quote=row["quote"],
        active=row.get("active") is not False,
        price_step=_decimal(tick) or _decimal(precision.get("price")),
        quantity_step=_decimal(precision.get("amount")),
        least=_decimal((limits.get("amount") or {}).get("min")),
        cost=_decimal((limits.get("cost") or {}).get("min")),
        maker=row.get("maker"),
        taker=row.get("taker"),
        types=tuple(info.get("orderTypes") or ()) if isinstance(info, dict) else (),
        names=tuple(str(name) for name in (row["id"], row.get("altname"), row.get("wsId")) if name),
    )


def _decimal(value: Any) -> Decimal | None:
    try:
        found = exact(float(value))
    except (TypeError, ValueError):
        return None
    return found if found.is_finite() and found > 0 else None
