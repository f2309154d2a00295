"""What a broker is to the desk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from models.order_tables import Preview
from models.orders import AccountView, BrokerAnswer, BrokerState, OrderTicket


class Broker(Protocol):
    """Takes an order once, knows it again by its client order id (ticket.order_id), and never invents a fill.

    name is also the name of the account it serves; real_money says whether its orders move any. `account` is what the
    desk's own books say; a broker that keeps books of its own goes by those. Every call raises MarketError or
    ServiceError when it cannot tell; after `submit` raised, the order may or may not be there.
    """

    name: str
    real_money: bool

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Send an order. Called at most once for each ticket; after a lost answer `lookup` is called instead."""

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        """What became of an order that was sent, with all its fills; None when the broker does not know it."""

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        """Ask for the end of an order; what is said of it then, which may still be `submitted`. None: not known."""

    def state(self) -> BrokerState:
        """The account as the broker sees it now."""


@runtime_checkable
class Streaming(Protocol):
    """A broker that says by itself that something happened to an order. Who does not listen finds out by `lookup`."""

    def listen(self, changed: Callable[[str], None]) -> None:
        """From now on call `changed` with the client order id, from a thread of the broker's own. Returns at once."""

    def close(self) -> None:
        """Stop listening."""
