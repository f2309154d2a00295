"""The Alpaca broker, paper and live: equities, options and orders with legs, each sent once."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from alpaca.trading.requests import (
    LimitOrderRequest,
    MarketOrderRequest,
    OptionLegRequest,
    OrderRequest,
    StopLimitOrderRequest,
    StopOrderRequest,
    TrailingStopOrderRequest,
)

from chordesk.models.database.store import Store
from chordesk.models.order_terms import OrderType
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerFill, BrokerState, OrderTicket
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Preview
from chordesk.tools.brokers import alpaca_shapes as shapes
from chordesk.tools.brokers.alpaca_stream import StreamedFills, TradeUpdates
from chordesk.tools.brokers.alpaca_wire import (
    RETRY_SECONDS,
    AlpacaWire,
    BrokerSilent,
    RequestRejected,
    base_url,
    credentials,
    stream_url,
)
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.market.protocol import MarketClock, MarketData

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
    """Return the account's broker; no request is made. Raises SettingError when credentials are missing or the address
    is not the broker's."""
    return AlpacaBroker(settings, market.clock, environ)


class AlpacaBroker:
    """An account at Alpaca. The client order id is the desk's order id: the broker takes each once.

    A send without an answer that can be used is looked up at once and never repeated by the desk; when the broker does
    not know it (yet), `submit` raises and the order's outcome is unknown. Fills come from the account's list of fills
    and, while `listen` is on, from the stream; both name a fill by how much of the order was filled with it.
    """

    def __init__(
        self,
        settings: Settings,
        clock: MarketClock,
        environ: Mapping[str, str],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.name = settings.broker
        self.real_money = settings.real_money
        self._clock = clock
        self._base = base_url(settings)
        self._credentials = credentials(environ)
        self._wire = AlpacaWire(self._base, self._credentials, settings.broker_seconds, retry_seconds)
        self._fills = StreamedFills()
        self._updates: TradeUpdates | None = None
        self._lock = threading.Lock()

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        try:
            fields = shapes.package_fields(ticket, account) if ticket.legs else shapes.request_fields(ticket)
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
        """Return the broker's order with its legs, None when it knows no such order."""
        order = self._wire.order_by_client_id(str(ticket.order_id))
        if order is None or not ticket.legs or shapes.legs_in(order):
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
        rows = self._wire.activities(shapes.FILLS, _moment(today))
        client_ids = self._client_ids(rows, open_orders, today)
        settled = self._wire.activities(shapes.SETTLEMENTS, _moment(today - dt.timedelta(days=_SETTLED_DAYS)))
        with _readable():
            return BrokerState(
                account=self.name,
                cash=float(shapes.number(account.cash)),
                equity=float(shapes.number(account.equity)) if account.equity else None,
                positions=[shapes.position_of(row) for row in positions],
                open_orders=[shapes.open_order_of(row) for row in open_orders],
                fills=[shapes.account_fill(row, client_ids) for row in rows],
                settlements=shapes.settlements_of(settled),
                blocked=shapes.blocked_of(account),
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
            answer = shapes.answer_of(order, self._fills_of(order))
        if answer.status not in ("submitted", "partially_filled"):
            self._fills.forget(str(order.id))
        return answer

    def _fills_of(self, order: Any) -> list[BrokerFill]:
        """Return all fills of an order: as streamed when they make up what it has filled, else as the account lists
        them."""
        filled = shapes.filled_of(order)
        if not filled:
            return []
        if shapes.legs_in(order):
            rows = self._wire.activities(shapes.FILLS, _moment(order.submitted_at - _EARLIER))
            return shapes.leg_fills(order, map(shapes.listed_fill, rows))
        streamed = shapes.unbroken(self._fills.of(str(order.id)))
        if sum(exact(fill.quantity) for fill in streamed) == filled:
            return streamed
        rows = self._wire.activities(shapes.FILLS, _moment(order.submitted_at - _EARLIER))
        listed = [shapes.listed_fill(row) for row in rows if str(row["order_id"]) == str(order.id)]
        found = shapes.unbroken({total: fill for _, total, fill in listed if total <= filled})
        return max(found, streamed, key=len)

    def _client_ids(
        self, rows: Sequence[Mapping[str, Any]], open_orders: Sequence[Any], today: dt.datetime
    ) -> dict[str, str]:
        """Return client order ids by the broker's: the list of fills does not carry them."""
        wanted = {str(row["order_id"]) for row in rows}
        orders = [*open_orders, *(self._wire.orders(status="all", after=today, nested=True) if wanted else ())]
        known = {str(order.id): str(order.client_order_id) for order in orders}
        known |= {str(leg.id): str(order.client_order_id) for order in orders for leg in shapes.legs_in(order)}
        for order_id in sorted(wanted - set(known)):
            order = self._wire.order_by_id(order_id)
            if order is not None:
                known[order_id] = str(order.client_order_id)
        return known


def _require_ours(ticket: OrderTicket, order: Any) -> None:
    """Raise BrokerSilent when the broker answered with another order than the one that was asked about."""
    with _readable():
        wrong = shapes.unlike(ticket, order)
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
