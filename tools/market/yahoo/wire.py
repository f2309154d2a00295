"""yfinance, imported when first needed, throttled, with its errors as errors of the desk."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from chordesk.models.errors import DeskError, MarketError, MarketUnavailable, NotConfigured
from chordesk.tools.market.throttle import Throttle

T = TypeVar("T")

REQUESTS_A_SECOND = 10.0
BURST = 40
# After "too many requests", more of them make it worse.
REST_SECONDS = 120.0
_TIMEOUT = 10
_HISTORY = "2y"
_REPORTS = 25  # rows of the earnings calendar, which Yahoo gives in pages of so many
_NONE_LISTED = ("No fundamentals data found", "No upgrade/downgrade history found")


class NothingListed(MarketError):
    """Yahoo knows the symbol, and has nothing of this kind of it."""


class YahooWire:
    """The calls we make of yfinance. Raises MarketError (unknown symbol), MarketUnavailable, NotConfigured.

    session: what yfinance sends its requests with; its own by default.
    """

    def __init__(self, home: Path, session: Any | None = None) -> None:
        self._home = home
        self._session = session
        self._throttle = Throttle(REQUESTS_A_SECOND, BURST)
        self._rest_until = 0.0
        self._library: Any | None = None
        self._lock = threading.Lock()

    def history(self, symbol: str) -> Any:
        """Return two years of daily bars, adjusted for splits and dividends: a frame."""
        return self._request(
            symbol, lambda ticker: ticker.history(period=_HISTORY, actions=False, auto_adjust=True, timeout=_TIMEOUT)
        )

    def info(self, symbol: str) -> dict[str, Any]:
        return self._request(symbol, lambda ticker: dict(ticker.info))

    def news(self, symbol: str, count: int) -> list[dict[str, Any]]:
        return self._request(symbol, lambda ticker: list(ticker.get_news(count=count)))

    def earnings(self, symbol: str) -> Any:
        """Return the earnings calendar's last and next dates: a frame, None where Yahoo lists none."""

        def request(ticker: Any) -> Any:
            # yfinance keeps this page for as long as the process lives; its age is ours to decide.
            self._yfinance().data.YfData.cache_get.cache_clear()
            return ticker.get_earnings_dates(limit=_REPORTS)

        return self._request(symbol, request)

    def ratings(self, symbol: str) -> Any:
        """Return the history of analysts' ratings: a frame, None where Yahoo has none."""
        with suppress(NothingListed):
            return self._request(symbol, lambda ticker: ticker.upgrades_downgrades)
        return None

    def owners(self, symbol: str) -> tuple[Any, Any]:
        """Return (insiders' transactions, institutional holders) as frames, of one request; None where Yahoo has
        none."""
        with suppress(NothingListed):
            return self._request(symbol, lambda ticker: (ticker.insider_transactions, ticker.institutional_holders))
        return None, None

    def intraday(self, symbol: str, minutes: int, days: int) -> Any:
        """Return the bars of regular hours of so many calendar days, adjusted for splits: a frame."""
        start = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)

        def request(ticker: Any) -> Any:
            return ticker.history(
                start=start, interval=f"{minutes}m", actions=False, auto_adjust=True, prepost=False, timeout=_TIMEOUT
            )

        return self._request(symbol, request)

    def expiries(self, symbol: str) -> tuple[str, ...]:
        return self._request(symbol, lambda ticker: tuple(ticker.options))

    def chain(self, symbol: str, expiry: str) -> tuple[Any, Any]:
        """Return (calls, puts) of one expiry as frames."""
        chain = self._request(symbol, lambda ticker: ticker.option_chain(expiry))
        return chain.calls, chain.puts

    def _request(self, symbol: str, request: Callable[[Any], T]) -> T:
        library = self._yfinance()
        if time.monotonic() < self._rest_until:
            raise MarketUnavailable("Yahoo limits our requests", remedy="try again in some minutes")
        self._throttle.wait()
        try:
            return request(library.Ticker(yahoo_symbol(symbol), session=self._session))
        except Exception as error:
            if isinstance(error, library.exceptions.YFRateLimitError):
                self._rest_until = time.monotonic() + REST_SECONDS
            raise translate(error, symbol, library.exceptions) from None

    def _yfinance(self) -> Any:
        with self._lock:
            if self._library is None:
                self._library = _import_yfinance(self._home)
            return self._library


def require_installed() -> None:
    """Raise NotConfigured when yfinance is not installed; it is not imported, which takes a second."""
    if importlib.util.find_spec("yfinance") is None:
        raise NotConfigured("not available: configure DESK_MARKET=yahoo with `pip install chordesk[yahoo]`")


def _import_yfinance(home: Path) -> Any:
    require_installed()
    library = importlib.import_module("yfinance")
    # Its errors are raised as ours; its own log lines would stand between a command's.
    logging.getLogger("yfinance").setLevel(logging.CRITICAL)
    folder = home / "cache" / "yfinance"
    folder.mkdir(parents=True, exist_ok=True)
    library.set_tz_cache_location(str(folder))
    # By default it logs an error and gives an empty frame, which would read as "no data".
    library.config.debug.hide_exceptions = False
    return library


def yahoo_symbol(symbol: str) -> str:
    """Return Yahoo's form of a symbol, with a hyphen before the share class: BRK.B is BRK-B; a longer suffix is an
    exchange's."""
    stem, dot, suffix = symbol.rpartition(".")
    return f"{stem}-{suffix}" if dot and suffix in {"A", "B", "C"} else symbol


def translate(error: Exception, symbol: str, exceptions: Any) -> DeskError:
    """Return the error as one of the desk: the symbol is unknown, or Yahoo does not answer as it should right now."""
    if isinstance(error, exceptions.YFRateLimitError) or _status(error) == 429:
        return MarketUnavailable("Yahoo limits our requests", remedy="try again in some minutes")
    if any(text in _message(error) for text in _NONE_LISTED):
        return NothingListed(f"Yahoo has nothing of this kind of {symbol}")
    if isinstance(error, exceptions.YFTickerMissingError) or _status(error) == 404:
        return MarketError(f"unknown symbol {symbol}: Yahoo has nothing under that name")
    if isinstance(error, OSError):
        return MarketUnavailable(f"Yahoo does not answer for {symbol}: {type(error).__name__}")
    return MarketUnavailable(f"Yahoo's answer for {symbol} could not be read: {type(error).__name__}")


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _message(error: Exception) -> str:
    """Return the error's text with that of the answer it is about."""
    return f"{error} {getattr(getattr(error, 'response', None), 'text', '')}"
