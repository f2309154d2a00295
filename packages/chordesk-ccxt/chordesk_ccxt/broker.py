"""Orders at Kraken and Binance: each sent once, looked up by the desk's own id, booked with the fee as it was taken.

A venue's id of an order is unique among open orders alone, so that an order is looked for before it is sent. What is no
multiple of the pair's steps is refused here: ccxt and the venues would cut it without a word.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal

from chordesk.plugins import (
    AccountFill,
    AccountView,
    BrokerAnswer,
    BrokerOrder,
    BrokerPosition,
    BrokerState,
    DeskError,
    MarketClock,
    MarketData,
    OrderTicket,
    Preview,
    Settings,
    Store,
    broker_keys,
    own_settings,
)

from .binance import BinanceWire
from .kraken import KrakenWire
from .orders import TAKES, WORKING, VenueFill, VenueOrder, Wire, answer_of, day_end, fill_of, unfit, unlike
from .rights import FIAT, Balances, Rights, balances_of, rights_of
from .settings import CcxtSettings
from .venue import REQUEST_SECONDS, Venue, VenueRefused, VenueSilent

MONEY = {"kraken": "USD", "binance": "USDT"}
_RIGHTS_AGE = 900.0
_LOOKS_BACK = dt.timedelta(hours=25)  # the day of an account may be New York's, and a clock may differ


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> CcxtBroker:
    """No request is made. Raises SettingError when a key is missing."""
    return CcxtBroker(settings, market.clock, environ)


class CcxtBroker:
    """An account at one venue, in one money. Threads share it."""

    def __init__(self, settings: Settings, clock: MarketClock, environ: Mapping[str, str]) -> None:
        own = own_settings(settings, CcxtSettings)
        key, secret = broker_keys(settings.broker, environ).values()
        self.name, self.real_money = settings.broker, settings.real_money
        _, venue, *testnet = settings.broker.split("-")
        self._venue = Venue(venue, key=key, secret=secret, url=own.url, play=bool(testnet), seconds=REQUEST_SECONDS)
        self._wire: Wire = KrakenWire(self._venue) if venue == "kraken" else BinanceWire(self._venue)
        self._money = own.money or MONEY[venue]
        self._clock = clock
        self._lock = threading.Lock()
        self._rights: Rights | None = None
        self._rights_at = 0.0
        self._traded: set[str] = set()  # pairs that this process saw orders of

    def __repr__(self) -> str:
        return f"CcxtBroker({self.name})"

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        if (why := self._unsendable(ticket)) is not None:
            return _rejected(why)
        self._venue.require_clock()
        try:
            pair = self._venue.pair(ticket.symbol)
        except VenueSilent:
            raise
        except DeskError as error:
            return _rejected(str(error))
        if (why := unfit(ticket, pair) or self._refused_key()) is not None:
            return _rejected(why)
        if (earlier := self._wire.find(ticket)) is not None:
            return self._answer(ticket, earlier)
        try:
            number = self._wire.place(ticket, pair)
        except VenueRefused as refused:
            return _rejected(str(refused.args[0]))
        except VenueSilent as silent:
            if (found := self._wire.find(ticket)) is None:
                reason = f"{silent.args[0]}; and {self._venue.title} knows no order {ticket.order_id} yet"
                raise VenueSilent(reason, remedy="it is looked up until it is known, and never sent again") from None
            return self._answer(ticket, found)
        try:
            if (found := self._wire.find(ticket)) is not None:
                return self._answer(ticket, found)
        except VenueSilent:
            pass  # it was taken: what became of it is asked for soon
        return BrokerAnswer(status="submitted", broker_order_id=number, fills=[])

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        if ticket.symbol not in self._venue.pairs():
            return None if ticket.is_option else self._gone(ticket)
        found = self._wire.find(ticket)
        if found is not None and self._is_over(ticket, found):
            return self._ended(ticket, found)
        return None if found is None else self._answer(ticket, found)

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        found = self._wire.find(ticket)
        if found is None:
            return None
        self._require_ours(ticket, found)
        return self._ended(ticket, found) if found.state == "open" else self._answer(ticket, found)

    def state(self) -> BrokerState:
        self._venue.require_clock()
        balances = balances_of(self._venue)
        if self._money not in balances.held:
            raise VenueSilent(f"{self._venue.title} states no balance in {self._money}")
        working = self._wire.open_orders()
        since = self._clock.now() - _LOOKS_BACK
        symbols = {f"{coin}-{self._money}" for coin, held in balances.held.items() if held} | self._traded
        symbols |= {order.symbol for order in working}
        fills = self._wire.fills_since(since, symbols & self._venue.pairs().keys())
        ids = {order.number: order.client_id for order in working} | self._client_ids(fills, working, since)
        return BrokerState(
            account=self.name,
            cash=float(balances.held[self._money]),
            equity=None,
            positions=self._positions(balances, fills),
            open_orders=[_open(order) for order in working],
            fills=[self._account_fill(fill, ids) for fill in fills],
            blocked=self._blocked(balances),
            currency=self._money,
        )

    # What is sent

    def _unsendable(self, ticket: OrderTicket) -> str | None:
        if ticket.is_option:
            return f"{self._venue.title} takes no options"
        base, _, quote = ticket.symbol.partition("-")
        if not base or not quote:
            return f"{ticket.symbol} is no pair, and {self._venue.title} trades nothing else"
        if quote != self._money:
            reason = f"{ticket.symbol} is priced in {quote}, and the account counts in {self._money}"
            return f"{reason}: order {base}-{self._money}"
        if ticket.time_in_force not in TAKES.get(ticket.order_type, ()):
            kind = ticket.order_type.replace("_", " ")
            return f"{self._venue.title} takes no {kind} order that is {ticket.time_in_force} from the desk"
        return None

    def _refused_key(self) -> str | None:
        with self._lock:
            if self._rights is None or time.monotonic() - self._rights_at > _RIGHTS_AGE:
                self._rights, self._rights_at = rights_of(self._venue), time.monotonic()
        if self._rights.withdraws:
            remedy = f"make one at {self._venue.title} without that right, and delete this one"
            return f"the key may withdraw or transfer money, and the desk never does: {remedy}"
        if self._rights.trades is False:
            return f"the key may not trade: give it that right at {self._venue.title}, and no right to withdraw"
        return None

    # What became of it

    def _answer(self, ticket: OrderTicket, order: VenueOrder) -> BrokerAnswer:
        self._require_ours(ticket, order)
        self._traded.add(order.symbol)
        fills = self._wire.fills(order) if order.filled else []
        return answer_of(ticket, order, fills, self._money)

    def _require_ours(self, ticket: OrderTicket, order: VenueOrder) -> None:
        if wrong := unlike(ticket, order):
            differs = ", ".join(wrong)
            raise VenueSilent(
                f"{self._venue.title} answers with another order than {ticket.order_id}: {differs} differ"
            )

    def _is_over(self, ticket: OrderTicket, order: VenueOrder) -> bool:
        """Whether an order of a day goes on after it, at a venue that does not end it by itself."""
        of_day = ticket.time_in_force == "day" and not self._wire.days
        return of_day and order.state == "open" and dt.datetime.now(dt.UTC) >= day_end(order.opened)

    def _ended(self, ticket: OrderTicket, order: VenueOrder) -> BrokerAnswer | None:
        """Ask for the end of an order, and return what it is then: a fill may have come first."""
        with suppress(VenueRefused):  # there is nothing to end any more
            self._wire.cancel(order)
        found = self._wire.find(ticket)
        return None if found is None else self._answer(ticket, found)

    def _gone(self, ticket: OrderTicket) -> BrokerAnswer | None:
        reason = f"{self._venue.title} lists {ticket.symbol} no more, and what became of order {ticket.order_id}"
        raise VenueSilent(f"{reason} is not known", remedy="look at the venue, then `desk reconcile --adopt`")

    # The account

    def _client_ids(
        self, fills: Sequence[VenueFill], working: Sequence[VenueOrder], since: dt.datetime
    ) -> dict[str, str]:
        known = {order.number for order in working}
        missing = [fill for fill in fills if fill.number not in known]
        if isinstance(self._wire, BinanceWire):
            found: dict[str, str] = {}
            for symbol in sorted({fill.symbol for fill in missing}):
                found |= self._wire.client_ids(symbol, since - _LOOKS_BACK)
            return found
        return self._wire.orders_of(sorted({fill.number for fill in missing}))

    def _positions(self, balances: Balances, fills: Sequence[VenueFill]) -> list[BrokerPosition]:
        """Return what is held beside money. No venue states what it cost: that is by the purchases of the last day, and
        for what they do not cover by the price now."""
        held = {
            f"{coin}-{self._money}": amount
            for coin, amount in balances.held.items()
            if amount and coin != self._money and coin not in FIAT
        }
        bought = {symbol: [fill for fill in fills if fill.symbol == symbol and fill.side == "buy"] for symbol in held}
        uncovered = [
            symbol for symbol, amount in held.items() if sum(fill.quantity for fill in bought[symbol]) < amount
        ]
        prices = self._prices(uncovered)
        return [
            BrokerPosition(
                symbol=symbol,
                quantity=float(amount),
                average_cost=float(_cost(amount, bought[symbol], prices.get(symbol, Decimal(0)))),
            )
            for symbol, amount in held.items()
        ]

    def _prices(self, symbols: Iterable[str]) -> dict[str, Decimal]:
        known = [symbol for symbol in symbols if symbol in self._venue.pairs()]
        if not known:
            return {}
        told = self._venue.ask("fetch_tickers", [symbol.replace("-", "/") for symbol in known])
        rows = told if isinstance(told, dict) else {}
        lasts = {symbol: (rows.get(symbol.replace("-", "/")) or {}).get("last") for symbol in known}
        return {symbol: Decimal(str(last)) for symbol, last in lasts.items() if last}

    def _account_fill(self, fill: VenueFill, ids: Mapping[str, str]) -> AccountFill:
        return AccountFill.model_validate(
            {
                "client_id": ids.get(fill.number),
                "broker_order_id": fill.number,
                "symbol": fill.symbol,
                "side": fill.side,
                "fill": fill_of(fill, self._money),
            }
        )

    def _blocked(self, balances: Balances) -> str | None:
        other = [
            f"{amount} {coin}" for coin, amount in balances.held.items() if coin in FIAT - {self._money} and amount
        ]
        if other:
            return f"the account holds {', '.join(other)} beside {self._money}, in which the desk counts: exchange it"
        if balances.closed:
            return f"{self._venue.title} takes no orders on the account"
        with self._lock:
            self._rights = None  # a person may have changed them
        return self._refused_key() or self._wire.trouble()


def _cost(amount: Decimal, bought: Sequence[VenueFill], price: Decimal) -> Decimal:
    """Return the average cost of an amount: of the newest purchases, the rest at the price now."""
    left, paid = amount, Decimal(0)
    for fill in sorted(bought, key=lambda one: one.at, reverse=True):
        part = min(left, fill.quantity)
        left, paid = left - part, paid + part * fill.price
    return max((paid + max(left, Decimal(0)) * price) / amount, Decimal(0)) if amount > 0 else Decimal(0)


def _open(order: VenueOrder) -> BrokerOrder:
    return BrokerOrder.model_validate(
        {
            "client_id": order.client_id,
            "broker_order_id": order.number,
            "symbol": order.symbol,
            "side": order.side,
            "quantity": float(order.quantity),
            "filled": float(order.filled),
        }
    )


def _rejected(message: str) -> BrokerAnswer:
    return BrokerAnswer(status="rejected", broker_order_id=None, fills=[], message=message)


__all__ = ["WORKING", "CcxtBroker", "build"]
