"""What a broker is to the desk."""

from __future__ import annotations

from typing import Protocol

from models.order_tables import Preview
from models.orders import AccountView, BrokerAnswer, OrderTicket


class Broker(Protocol):
    """Takes an order once, knows it again by its client order id (ticket.order_id), and never invents a fill.

    name is also the name of the account it serves. `account` is what the desk's own books say; a broker that keeps
    books of its own goes by those. Both calls raise MarketError or ServiceError when they cannot tell.
    """

    name: str

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Send an order. Called at most once for each ticket; after a lost answer `lookup` is called instead."""

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        """What became of an order that was sent; None when the broker does not know it."""
