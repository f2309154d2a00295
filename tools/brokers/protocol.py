"""The protocol of brokers, and the broker that the settings name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from chordesk.models.database.store import Store
from chordesk.models.errors import SettingError
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerState, OrderTicket
from chordesk.models.settings import BROKERS, Settings
from chordesk.models.tables.orders import Preview
from chordesk.tools.market.factory import load_plugin
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

    def state(self) -> BrokerState: ...


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

    def close(self) -> None: ...


class BrokerModule(Protocol):
    """A broker's module; the extra that installs what it imports has the name of its module."""

    def build(self, settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> Broker:
        """Return the broker. Raises SettingError when the market prices no fills for it, or when credentials are
        missing or an address is not the broker's."""


def build_broker(
    settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str] | None = None
) -> Broker:
    """Return the settings' broker. Raises UsageError for an unknown name, NotConfigured when the broker's extra is not
    installed, SettingError as its module does. environ: where credentials are looked for, and nowhere else; the process
    environment by default."""
    modules = {name: broker.module for name, broker in BROKERS.items()}
    module: BrokerModule = load_plugin("broker", modules, settings.broker)
    broker = module.build(settings, market, store, os.environ if environ is None else environ)
    if broker.real_money and not settings.real_money:
        reason = f"the broker {settings.broker} moves real money, and its feature says that it does not"
        raise SettingError(reason, remedy="correct its package, or choose another DESK_BROKER")
    return broker
