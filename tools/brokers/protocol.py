"""Protocols of brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from chordesk.models.orders import AccountView, BrokerAnswer, BrokerState, OrderTicket
from chordesk.models.tables.orders import Preview
from chordesk.tools.market.protocol import MarketData


class Broker(Protocol):
    """Broker that takes an order once, knows it by its client order id (ticket.order_id), and never invents a fill.

    name is also the name of the account it serves; real_money: whether its orders move any. `account` is the desk's
    own books; a broker that keeps books of its own uses those. Every call raises MarketError or ServiceError when it
    cannot answer; after `submit` raised, the order may or may not be there.
    """

    name: str
    real_money: bool

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Send an order. Called at most once for each ticket; after a lost answer `lookup` is called instead."""

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        """Return the state of an order that was sent, with all its fills; None when the broker does not know it."""

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        """Request the end of an order; return its state then, which may still be `submitted`, or None when it is not
        known."""

    def state(self) -> BrokerState:
        """Return the account as the broker sees it now."""


@runtime_checkable
class MarketPriced(Protocol):
    """A broker that fills orders at the prices and the time of a market of ours."""

    def on(self, market: MarketData) -> Broker:
        """Return the same broker on another market or day."""


@runtime_checkable
class Streaming(Protocol):
    """Broker that notifies of changes of orders; `lookup` finds them too, later."""

    def listen(self, changed: Callable[[str], None]) -> None:
        """From now on call `changed` with the client order id, from a thread of the broker's own. Returns at once."""

    def close(self) -> None:
        """Stop listening."""
