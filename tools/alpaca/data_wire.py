"""The desk's calls of alpaca-py for option data, with a limit on their time and pages, and its errors as the desk's."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping
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
from chordesk.models.settings import Settings
from chordesk.models.settings.secret_files import secret
from chordesk.tools.alpaca.http import Credentials, LimitedAdapter, body_of, limit, on_loopback
from chordesk.tools.market.throttle import Throttle

T = TypeVar("T")

DATA_URL = "https://data.alpaca.markets"
# Keys for data are those of a paper account: its trading API has the contracts, and they can move no money.
TRADING_URL = "https://paper-api.alpaca.markets"
REQUESTS_A_SECOND, BURST = 3.0, 20  # 200 a minute is what a free account has
REST_SECONDS = 60.0
ALL_SECONDS = 20.0  # of one question with all its pages
_PAGES, _PAGE = 40, 1000


def data_url(settings: Settings) -> str | None:
    """Return the address that stands for both of Alpaca's APIs, None for its own. Raises SettingError unless it is on
    loopback: data keys are sent nowhere else."""
    url = settings.alpaca_data_url
    if url is None or on_loopback(url):
        return url.rstrip("/") if url else None
    raise SettingError("DESK_ALPACA_DATA_URL is not http on loopback", remedy="leave it out")


def data_credentials(environ: Mapping[str, str]) -> Credentials:
    """Return the key and secret for data. Raises NotConfigured naming what is missing, SettingError for a
    file that cannot be used."""
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

    def __init__(self, seconds: float, all_seconds: float, throttle: Throttle) -> None:
        super().__init__(seconds)
        self._all_seconds, self._throttle = all_seconds, throttle
        self._begun = threading.local()

    def begin(self) -> None:
        self.met().clear()
        self._begun.at = time.monotonic()

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        if len(self.met()) >= _PAGES:
            raise RequestException(f"its pages do not end: {_PAGES} so far")
        if time.monotonic() - self._begun.at > self._all_seconds:
            raise ReadTimeout(f"no whole answer within {self._all_seconds:g} s")
        self._throttle.wait()
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
        self._adapter = BoundedAdapter(seconds, all_seconds, Throttle(REQUESTS_A_SECOND, BURST))
        self._rest_until = 0.0
        self._clients: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> dict[str, Any]:
        """Return the snapshots by contract of a share's options that expire within these days."""
        wanted = OptionChainRequest(
            underlying_symbol=symbol, feed=self._feed, expiration_date_gte=first, expiration_date_lte=last
        )
        found = self._ask(symbol, lambda data, _: data.get_option_chain(wanted))
        return _mapping(found, symbol)

    def snapshot(self, contract: str) -> dict[str, Any]:
        """Return the snapshot of one contract by its name, none of an unknown one."""
        wanted = OptionSnapshotRequest(symbol_or_symbols=[contract], feed=self._feed)
        return _mapping(self._ask(contract, lambda data, _: data.get_option_snapshot(wanted)), contract)

    def contracts(self, symbol: str, first: dt.date, last: dt.date) -> list[dict[str, Any]]:
        """Return the contracts on a share that can be traded, with their open interest."""
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
        """Return the answer of a client's call. page: of a question that has begun."""
        clients = self._made()
        if time.monotonic() < self._rest_until:
            raise _limited()
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
            self._rest_until = time.monotonic() + REST_SECONDS
            return _limited()
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


def _limited() -> MarketUnavailable:
    return MarketUnavailable("Alpaca limits our requests", remedy="try again in a minute")


def _why(error: RequestException) -> str:
    """Return the reason of a request without an answer; no address, which may be long."""
    text = str(error.args[0]) if error.args and isinstance(error.args[0], str) else ""
    return text if "pages" in text or "within" in text else type(error).__name__


def _mapping(found: Any, symbol: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise MarketUnavailable(f"Alpaca's answer for {symbol} could not be read: no mapping of contracts")
    return found
