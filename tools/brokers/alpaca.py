"""The Alpaca broker, paper and live: equities, options and orders with legs, each sent once; its requests and its
stream of fills."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar

import structlog
from alpaca.common.exceptions import APIError
from alpaca.trading.client import TradingClient
from alpaca.trading.requests import (
    GetOrderByIdRequest,
    GetOrdersRequest,
    LimitOrderRequest,
    MarketOrderRequest,
    OptionLegRequest,
    OrderRequest,
    StopLimitOrderRequest,
    StopOrderRequest,
    TrailingStopOrderRequest,
)
from alpaca.trading.stream import TradingStream
from requests.exceptions import RequestException

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, ServiceError
from chordesk.models.order_terms import OrderType
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerFill, BrokerState, OrderTicket
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import broker_keys
from chordesk.models.tables.orders import Preview
from chordesk.models.text import NEW_YORK
from chordesk.tools.brokers import alpaca_shapes
from chordesk.tools.brokers.alpaca_shapes import streamed_fill
from chordesk.tools.decimals import exact
from chordesk.tools.market.alpaca_http import Credentials, LimitedAdapter, body_of, limit
from chordesk.tools.market.fetching import REQUEST_SECONDS
from chordesk.tools.market.protocol import MarketClock, MarketData

T = TypeVar("T")

ADDRESSES: Mapping[str, str] = {
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


def stream_url(base: str) -> str:
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
        return self._found(lambda client: client.get_order_by_client_id(client_id))

    def order_by_id(self, broker_order_id: str) -> Any | None:
        wanted = GetOrderByIdRequest(nested=True)
        return self._found(lambda client: client.get_order_by_id(broker_order_id, wanted))

    def orders(self, **wanted: Any) -> list[Any]:
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


log = structlog.get_logger(__name__)


class StreamedFills:
    """Fills from the stream, by the broker's order id; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fills: defaultdict[str, dict[Decimal, BrokerFill]] = defaultdict(dict)

    def add(self, order_id: str, total: Decimal, fill: BrokerFill) -> None:
        with self._lock:
            self._fills[order_id].setdefault(total, fill)

    def of(self, order_id: str) -> dict[Decimal, BrokerFill]:
        with self._lock:
            return dict(self._fills.get(order_id, {}))

    def forget(self, order_id: str) -> None:
        with self._lock:
            self._fills.pop(order_id, None)


class TradeUpdates:
    """One connection to the stream, in a thread of its own. The client connects again by itself when it is cut."""

    def __init__(self, url: str, found: Credentials, fills: StreamedFills, changed: Callable[[str], None]) -> None:
        self._fills = fills
        self._changed = changed
        self._stream: Any = TradingStream(found.key, found.secret, url_override=url)
        self._stream.subscribe_trade_updates(self._handle)
        # Its errors carry what was sent; a cut is no news here, for lookups go on.
        logging.getLogger("alpaca.trading.stream").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run, name="alpaca-stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float = 1.0) -> None:
        """Ask the stream to end; it looks for that every five seconds, and its thread keeps no process alive."""
        loop = self._stream._loop
        if loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(self._stream.stop_ws(), loop)
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._stream.run()
        except Exception:
            log.warning("fill_stream.ended", instead="fills are polled for", exc_info=True)

    async def _handle(self, update: Any) -> None:
        """Record an update. Must not raise: the client would take it for an error of the connection."""
        try:
            fill = streamed_fill(update)
            if fill is not None:
                self._fills.add(*fill)
            await asyncio.to_thread(self._changed, str(update.order.client_order_id))
        except Exception:
            log.warning("fill_stream.update_unusable", instead="fills are polled for", exc_info=True)


_REQUESTS: Mapping[OrderType, type[OrderRequest]] = {
    "market": MarketOrderRequest,
    "limit": LimitOrderRequest,
    "stop": StopOrderRequest,
    "stop_limit": StopLimitOrderRequest,
    "trailing_stop": TrailingStopOrderRequest,
}
DUPLICATE = "client_order_id must be unique"
_SETTLED_DAYS = 4  # option events are listed the morning after, and a weekend may lie between
_EARLIER = dt.timedelta(minutes=5)  # the broker's clock and ours need not agree


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> AlpacaBroker:
    """No request is made. Raises SettingError when credentials are missing or the address is not the broker's."""
    return AlpacaBroker(settings, market.clock, environ)


class AlpacaBroker:
    """An account at Alpaca. The client order id is the desk's order id: the broker takes each once.

    A send without an answer that can be used is looked up at once and never repeated by the desk; when the broker does
    not know it (yet), `submit` raises and the order's outcome is unknown. Fills come from the account's list of fills
    and, while `listen` is on, from the stream; both name a fill by how much of the order was filled with it.
    """

    def __init__(
        self, settings: Settings, clock: MarketClock, environ: Mapping[str, str], retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self.name = settings.broker
        self.real_money = settings.real_money
        self._clock = clock
        self._base = ADDRESSES[settings.broker]
        self._credentials = Credentials(*broker_keys(settings.broker, environ).values())
        self._wire = AlpacaWire(self._base, self._credentials, REQUEST_SECONDS, retry_seconds)
        self._fills = StreamedFills()
        self._updates: TradeUpdates | None = None
        self._lock = threading.Lock()

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        try:
            fields = (
                alpaca_shapes.package_fields(ticket, account) if ticket.legs else alpaca_shapes.request_fields(ticket)
            )
            if ticket.legs:
                fields["legs"] = [OptionLegRequest(**leg) for leg in fields["legs"]]
            request = _REQUESTS[ticket.order_type](**fields)
        except ValueError as error:
            return _rejected(f"the order cannot be put to Alpaca: {error}")
        try:
            order = self._wire.submit(request)
        except RequestRejected as refused:
            if refused.status == 422 and DUPLICATE in refused.args[0]:
                return self._find(ticket, refused.args[0])
            return _rejected(refused.args[0])
        except BrokerSilent as silent:
            return self._find(ticket, silent.args[0])
        # Outside: what is refused from here on is a question, and the order was taken.
        return self._answer(ticket, order)

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        order = self._order_of(ticket)
        return None if order is None else self._answer(ticket, order)

    def _order_of(self, ticket: OrderTicket) -> Any | None:
        order = self._wire.order_by_client_id(str(ticket.order_id))
        if order is None or not ticket.legs or alpaca_shapes.legs_in(order):
            return order
        return self._wire.order_by_id(str(order.id))

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        order = self._order_of(ticket)
        if order is None:
            return None
        _require_ours(ticket, order)
        try:
            self._wire.cancel(str(order.id))
        except RequestRejected as refused:
            if refused.status not in (404, 422):  # it has ended, or is ending
                raise BrokerSilent(f"the order was not cancelled: {refused}") from None
        after = self._wire.order_by_id(str(order.id))
        return None if after is None else self._answer(ticket, after)

    def state(self) -> BrokerState:
        today = self._clock.now().astimezone(NEW_YORK).replace(hour=0, minute=0, second=0, microsecond=0)
        account = self._wire.account()
        positions = self._wire.positions()
        open_orders = self._wire.orders(status="open", nested=True)
        rows = self._wire.activities(alpaca_shapes.FILLS, _moment(today))
        client_ids = self._client_ids(rows, open_orders, today)
        settled = self._wire.activities(alpaca_shapes.SETTLEMENTS, _moment(today - dt.timedelta(days=_SETTLED_DAYS)))
        with _readable():
            return BrokerState(
                account=self.name,
                cash=float(alpaca_shapes.number(account.cash)),
                equity=float(alpaca_shapes.number(account.equity)) if account.equity else None,
                positions=[alpaca_shapes.position_of(row) for row in positions],
                open_orders=[alpaca_shapes.open_order_of(row) for row in open_orders],
                fills=[alpaca_shapes.account_fill(row, client_ids) for row in rows],
                settlements=alpaca_shapes.settlements_of(settled),
                blocked=alpaca_shapes.blocked_of(account, positions),
            )

    def listen(self, changed: Callable[[str], None]) -> None:
        with self._lock:
            if self._updates is None:
                self._updates = TradeUpdates(stream_url(self._base), self._credentials, self._fills, changed)
                self._updates.start()

    def close(self) -> None:
        with self._lock:
            updates, self._updates = self._updates, None
        if updates is not None:
            updates.close()

    def _find(self, ticket: OrderTicket, why: str) -> BrokerAnswer:
        """Return the state of an order that was sent without an answer. Raises BrokerSilent while there is none."""
        order = self._order_of(ticket)
        if order is None:
            raise BrokerSilent(f"{why}; and the broker knows no order {ticket.order_id} yet")
        return self._answer(ticket, order)

    def _answer(self, ticket: OrderTicket, order: Any) -> BrokerAnswer:
        _require_ours(ticket, order)
        with _readable():
            answer = alpaca_shapes.answer_of(order, self._fills_of(order))
        if answer.status not in ("submitted", "partially_filled"):
            self._fills.forget(str(order.id))
        return answer

    def _fills_of(self, order: Any) -> list[BrokerFill]:
        """All fills of an order: as streamed when they make up what it has filled, else as the account lists them."""
        filled = alpaca_shapes.filled_of(order)
        if not filled:
            return []
        if alpaca_shapes.legs_in(order):
            rows = self._wire.activities(alpaca_shapes.FILLS, _moment(order.submitted_at - _EARLIER))
            return alpaca_shapes.leg_fills(order, map(alpaca_shapes.listed_fill, rows))
        streamed = alpaca_shapes.unbroken(self._fills.of(str(order.id)))
        if sum(exact(fill.quantity) for fill in streamed) == filled:
            return streamed
        rows = self._wire.activities(alpaca_shapes.FILLS, _moment(order.submitted_at - _EARLIER))
        listed = [alpaca_shapes.listed_fill(row) for row in rows if str(row["order_id"]) == str(order.id)]
        found = alpaca_shapes.unbroken({total: fill for _, total, fill in listed if total <= filled})
        return max(found, streamed, key=len)

    def _client_ids(
        self, rows: Sequence[Mapping[str, Any]], open_orders: Sequence[Any], today: dt.datetime
    ) -> dict[str, str]:
        wanted = {str(row["order_id"]) for row in rows}
        orders = [*open_orders, *(self._wire.orders(status="all", after=today, nested=True) if wanted else ())]
        known = {str(order.id): str(order.client_order_id) for order in orders}
        known |= {str(leg.id): str(order.client_order_id) for order in orders for leg in alpaca_shapes.legs_in(order)}
        for order_id in sorted(wanted - set(known)):
            order = self._wire.order_by_id(order_id)
            if order is not None:
                known[order_id] = str(order.client_order_id)
        return known


def _require_ours(ticket: OrderTicket, order: Any) -> None:
    with _readable():
        wrong = alpaca_shapes.unlike(ticket, order)
    if wrong:
        raise BrokerSilent(f"Alpaca answered with another order than {ticket.order_id}: {', '.join(wrong)} differ")


def _rejected(message: str) -> BrokerAnswer:
    return BrokerAnswer(status="rejected", broker_order_id=None, fills=[], message=message)


def _moment(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def _readable() -> Iterator[None]:
    """Raise BrokerSilent for a response that is not of the known shape."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise BrokerSilent(f"Alpaca's answer could not be read: {type(error).__name__}") from None
