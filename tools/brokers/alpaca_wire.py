"""alpaca-py with a time limit on every request, and its errors as errors of the desk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from alpaca.common.exceptions import APIError
from alpaca.trading.client import TradingClient
from alpaca.trading.requests import GetOrderByIdRequest, GetOrdersRequest
from requests.exceptions import RequestException

from chordesk.models.errors import DeskError, ServiceError, SettingError
from chordesk.models.settings import Settings
from chordesk.models.settings.secret_files import secret
from chordesk.tools.alpaca.http import Credentials, LimitedAdapter, body_of, limit, on_loopback

T = TypeVar("T")

OFFICIAL: Mapping[str, str] = {
    "alpaca-paper": "https://paper-api.alpaca.markets",
    "alpaca-live": "https://api.alpaca.markets",
}
RETRY_SECONDS = 1.0  # the client's own rest between a send and the next
_PAGE = 100
_PAGES = 200  # 20000 activities; more in one question is a list that does not end


class BrokerSilent(ServiceError):
    """Request to the broker without a usable answer: its outcome is unknown."""

    remedy = "nothing is sent again; the order is looked up by its client order id until it is known"


class RequestRejected(DeskError):
    """Request that the broker refused, with the HTTP status: it had no effect. code: Alpaca's own, if any."""

    remedy = "read the broker's reason; 401 and 403 may mean the key, which must be the one of this account"

    def __init__(self, message: str, status: int, code: int | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def credentials(environ: Mapping[str, str]) -> Credentials:
    """Return the key and secret of the trade worker's environment. Raises SettingError naming what is missing, or a
    file that cannot be used."""
    found = {name: secret(environ, name) for name in Settings.CREDENTIALS}
    missing = [name for name, value in found.items() if value is None]
    if missing:
        raise SettingError(
            f"the Alpaca broker needs {' and '.join(missing)} in the process environment",
            remedy=f"set it, or the path of a file as {missing[0]}_FILE, for the trade worker alone; no .env is read",
        )
    return Credentials(*(value for value in found.values() if value is not None))


def base_url(settings: Settings) -> str:
    """Return the trading API's address. Raises SettingError unless it is the broker's own host or on loopback."""
    own = OFFICIAL[settings.broker]
    url = (settings.alpaca_url or own).rstrip("/")
    if url == own or on_loopback(url):
        return url
    raise SettingError(f"DESK_ALPACA_URL is neither {own} nor http on loopback", remedy="leave it out")


def stream_url(base: str) -> str:
    """Return the address of the trade updates that belong to a trading API."""
    return f"ws{base.removeprefix('http')}/stream"


class AlpacaWire:
    """The desk's calls of alpaca-py's trading client.

    Every call raises RequestRejected (a definite no) or BrokerSilent (outcome not known). The client sends a request
    again by itself after a 429 or a 504; the client order id makes that harmless.
    """

    def __init__(self, base: str, found: Credentials, seconds: float, retry_seconds: float) -> None:
        self._adapter = LimitedAdapter(seconds)
        self._client = _client(base, found, self._adapter, retry_seconds)

    def submit(self, request: Any) -> Any:
        return self._call(lambda client: client.submit_order(request), sends=True)

    def order_by_client_id(self, client_id: str) -> Any | None:
        """Return the order; None when the broker knows no such order."""
        return self._found(lambda client: client.get_order_by_client_id(client_id))

    def order_by_id(self, broker_order_id: str) -> Any | None:
        """Return the order with its legs; None when the broker knows no such order."""
        wanted = GetOrderByIdRequest(nested=True)
        return self._found(lambda client: client.get_order_by_id(broker_order_id, wanted))

    def orders(self, **wanted: Any) -> list[Any]:
        """Return up to 500 orders, newest first."""
        request = GetOrdersRequest(limit=500, **wanted)
        return list(self._call(lambda client: client.get_orders(request)))

    def cancel(self, broker_order_id: str) -> None:
        self._call(lambda client: client.cancel_order_by_id(broker_order_id))

    def account(self) -> Any:
        return self._call(lambda client: client.get_account())

    def positions(self) -> list[Any]:
        return list(self._call(lambda client: client.get_all_positions()))

    def activities(self, kinds: str, after: str) -> list[dict[str, Any]]:
        """Return account activities of these types since a moment, oldest first, as the broker's own mappings. Raises
        BrokerSilent for a list that does not move on or does not end."""
        rows: list[dict[str, Any]] = []
        wanted = {"activity_types": kinds, "after": after, "direction": "asc", "page_size": _PAGE}
        for _ in range(_PAGES):
            page = self._call(lambda client: client.get("/account/activities", dict(wanted)))
            if not isinstance(page, list):
                raise BrokerSilent("Alpaca's account activities are no list")
            rows += page
            if len(page) < _PAGE:
                return rows
            last = str(page[-1]["id"])
            if last == wanted.get("page_token"):
                break
            wanted["page_token"] = last
        raise BrokerSilent(f"Alpaca's account activities do not end: {len(rows)} rows so far")

    def _found(self, question: Callable[[Any], T]) -> T | None:
        try:
            return self._call(question)
        except RequestRejected as refused:
            if refused.status == 404:
                return None
            raise

    def _call(self, question: Callable[[Any], T], *, sends: bool = False) -> T:
        self._adapter.met().clear()
        try:
            return question(self._client)
        except DeskError:
            raise
        except APIError as error:
            raise self._error_of(error, sends) from None
        except RequestException as error:
            raise BrokerSilent(f"no answer from Alpaca: {type(error).__name__}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise BrokerSilent(f"Alpaca's answer could not be read: {type(error).__name__}") from None

    def _error_of(self, error: Any, sends: bool) -> DeskError:
        """Return the error of a response: 4xx is definite, unless an earlier send of the order may have been taken."""
        status = int(error.status_code or 0)
        code, message = body_of(error)
        text = f"{message} (HTTP {status}{f', code {code}' if code else ''})"
        earlier = set(self._adapter.met()) - {status, 429} if sends else set()
        if 400 <= status < 500 and status != 408 and not earlier:
            return RequestRejected(text, status, code)
        return BrokerSilent(f"Alpaca answered: {text}")


def _client(base: str, found: Credentials, adapter: LimitedAdapter, retry_seconds: float) -> Any:
    client: Any = TradingClient(found.key, found.secret, url_override=base)
    client._retry_wait = retry_seconds  # no parameter of the trading client sets it
    limit(client, adapter, base)
    return client
