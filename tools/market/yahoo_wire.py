"""yfinance, imported when first needed, throttled, with its errors said in the desk's words."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from models.errors import DeskError, MarketError, MarketUnavailable, NotConfigured
from tools.market.throttle import Throttle

T = TypeVar("T")

REQUESTS_A_SECOND = 10.0
BURST = 40
# After Yahoo said "too many requests", asking on makes it worse.
REST_SECONDS = 120.0
_TIMEOUT = 10
_HISTORY = "2y"


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
        """Two years of daily bars, adjusted for splits and dividends: a frame."""
        return self._ask(
            symbol, lambda ticker: ticker.history(period=_HISTORY, actions=False, auto_adjust=True, timeout=_TIMEOUT)
        )

    def info(self, symbol: str) -> dict[str, Any]:
        return self._ask(symbol, lambda ticker: dict(ticker.info))

    def news(self, symbol: str, count: int) -> list[dict[str, Any]]:
        return self._ask(symbol, lambda ticker: list(ticker.get_news(count=count)))

    def expiries(self, symbol: str) -> tuple[str, ...]:
        return self._ask(symbol, lambda ticker: tuple(ticker.options))

    def chain(self, symbol: str, expiry: str) -> tuple[Any, Any]:
        """(calls, puts) of one expiry as frames."""
        chain = self._ask(symbol, lambda ticker: ticker.option_chain(expiry))
        return chain.calls, chain.puts

    def _ask(self, symbol: str, question: Callable[[Any], T]) -> T:
        library = self._yfinance()
        if time.monotonic() < self._rest_until:
            raise MarketUnavailable("Yahoo limits our requests", remedy="ask again in some minutes")
        self._throttle.wait()
        try:
            return question(library.Ticker(yahoo_symbol(symbol), session=self._session))
        except Exception as error:
            if isinstance(error, library.exceptions.YFRateLimitError):
                self._rest_until = time.monotonic() + REST_SECONDS
            raise translate(error, symbol, library.exceptions) from None

    def _yfinance(self) -> Any:
        with self._lock:
            if self._library is None:
                self._library = _import_yfinance(self._home)
            return self._library


def _import_yfinance(home: Path) -> Any:
    try:
        library = importlib.import_module("yfinance")
    except ModuleNotFoundError:
        raise NotConfigured("not available: configure Yahoo with `pip install chordesk[yahoo]`") from None
    # What goes wrong is raised and said by us; its own lines would stand between a command's.
    logging.getLogger("yfinance").setLevel(logging.CRITICAL)
    folder = home / "cache" / "yfinance"
    folder.mkdir(parents=True, exist_ok=True)
    library.set_tz_cache_location(str(folder))
    # By default it logs an error and gives an empty frame, which would read as "no data".
    library.config.debug.hide_exceptions = False
    return library


def yahoo_symbol(symbol: str) -> str:
    """Share classes are written with a hyphen at Yahoo: BRK.B is BRK-B; a longer suffix is an exchange's."""
    stem, dot, suffix = symbol.rpartition(".")
    return f"{stem}-{suffix}" if dot and suffix in {"A", "B", "C"} else symbol


def translate(error: Exception, symbol: str, exceptions: Any) -> DeskError:
    """What went wrong: the symbol is unknown, or Yahoo does not answer as it should right now."""
    if isinstance(error, exceptions.YFRateLimitError) or _status(error) == 429:
        return MarketUnavailable("Yahoo limits our requests", remedy="ask again in some minutes")
    if isinstance(error, exceptions.YFTickerMissingError) or _status(error) == 404:
        return MarketError(f"unknown symbol {symbol}: Yahoo has nothing under that name")
    if isinstance(error, OSError):
        return MarketUnavailable(f"Yahoo does not answer for {symbol}: {type(error).__name__}")
    return MarketUnavailable(f"Yahoo's answer for {symbol} could not be read: {type(error).__name__}")


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None
