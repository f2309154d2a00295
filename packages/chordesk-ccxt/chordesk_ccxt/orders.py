"""Orders and fills in plain form, as both venues' wires are read into them, and what the desk is told of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, NamedTuple, Protocol

from chordesk.plugins import BrokerAnswer, BrokerFill, OrderTicket, exact

from .venue import Pair, Venue, VenueSilent

# Times in force by type. A market order is of the moment; a stop is an order at the venue that becomes one.
TAKES: Mapping[str, tuple[str, ...]] = {
    "market": ("day",),
    "limit": ("day", "gtc", "ioc"),
    "stop": ("gtc",),
    "stop_limit": ("gtc",),
}
State = Literal["open", "filled", "cancelled", "expired", "rejected"]
WORKING = ("submitted", "partially_filled")


class VenueOrder(NamedTuple):
    """An order as its venue has it. client_id: the desk's, else the venue's number. opened: when the venue took it."""

    number: str
    client_id: str
    symbol: str
    side: str
    quantity: Decimal
    kind: str
    limit: Decimal | None
    stop: Decimal | None
    state: State
    filled: Decimal
    opened: dt.datetime
    trades: tuple[str, ...] = ()  # ids of its fills, where the order lists them


class VenueFill(NamedTuple):
    """A fill. fee: in `coin`, which is the second currency of the pair, the first one, or one of neither."""

    id: str
    number: str
    symbol: str
    side: str
    quantity: Decimal
    price: Decimal
    fee: Decimal
    coin: str
    at: dt.datetime


class Wire(Protocol):
    """How a venue is asked. Each method raises VenueSilent without an answer that can be used."""

    days: bool  # it ends an order of the day by itself

    def find(self, ticket: OrderTicket) -> VenueOrder | None:
        """Return the order by the desk's id, None only where the venue said that it has none."""

    def place(self, ticket: OrderTicket, pair: Pair) -> str:
        """Send it, once; return the venue's number. Raises VenueRefused for a definite no."""

    def cancel(self, order: VenueOrder) -> None:
        """Ask for its end. Raises VenueRefused where there is nothing to end."""

    def fills(self, order: VenueOrder) -> list[VenueFill]: ...

    def open_orders(self) -> list[VenueOrder]: ...

    def fills_since(self, at: dt.datetime, symbols: Iterable[str]) -> list[VenueFill]:
        """Return the account's fills. symbols: pairs that it may have traded, for a venue that is asked by pair."""

    def orders_of(self, numbers: Sequence[str]) -> dict[str, str]:
        """Return the desk's ids by the venue's numbers, of those that have one."""

    def trouble(self) -> str | None:
        """Return why the account cannot be traded by the desk; None where it can."""


def day_end(moment: dt.datetime) -> dt.datetime:
    day = moment.astimezone(dt.UTC).date() + dt.timedelta(days=1)
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def unfit(ticket: OrderTicket, pair: Pair) -> str | None:
    """Return why an order is not to be sent as it is; None where nothing is against it. A quantity or a price between
    two steps would be cut by ccxt or by the venue, and what is filled would not be what was drafted."""
    quantity = exact(ticket.quantity)
    if pair.quantity_step is not None and quantity % pair.quantity_step:
        near = quantity.quantize(pair.quantity_step, ROUND_FLOOR)
        return f"{_text(quantity)} is no multiple of {pair.symbol}'s step {_text(pair.quantity_step)}: {_text(near)} is"
    if pair.least is not None and quantity < pair.least:
        return f"{_text(quantity)} is less than the least amount of {pair.symbol}, {_text(pair.least)}"
    for name, price in (("limit", ticket.limit_price), ("stop", ticket.stop_price)):
        if price is not None and pair.price_step is not None and exact(price) % pair.price_step:
            return f"the {name} price {_text(exact(price))} is between two steps of {_text(pair.price_step)}"
    if ticket.limit_price is not None and pair.cost is not None and quantity * exact(ticket.limit_price) < pair.cost:
        return f"it is worth less than the least order of {pair.symbol}, {_text(pair.cost)} {pair.quote}"
    return None


def unlike(ticket: OrderTicket, order: VenueOrder) -> list[str]:
    """Return what differs between an order of the desk and an answer about it."""
    wanted = {
        "id": str(ticket.order_id), "symbol": ticket.symbol, "side": ticket.side, "quantity": exact(ticket.quantity),
        "type": ticket.order_type, "limit price": _exact(ticket.limit_price), "stop price": _exact(ticket.stop_price),
    }  # fmt: skip
    found = {
        "id": order.client_id, "symbol": order.symbol, "side": order.side, "quantity": order.quantity,
        "type": order.kind, "limit price": order.limit, "stop price": order.stop,
    }  # fmt: skip
    return [name for name, value in wanted.items() if found[name] != value]


def answer_of(ticket: OrderTicket, order: VenueOrder, fills: Sequence[VenueFill], money: str) -> BrokerAnswer:
    """Return the state of an order with its fills. An end is told with all of them alone: until the venue's list has
    them the order works."""
    booked = [fill_of(fill, money) for fill in sorted(fills, key=lambda one: (one.at, one.id))]
    known = sum((fill.quantity for fill in fills), Decimal(0))
    state = "partially_filled" if booked else "submitted"
    if known == order.filled and order.state != "open":
        state = order.state
        if state == "cancelled" and ticket.time_in_force == "day" and dt.datetime.now(dt.UTC) >= day_end(order.opened):
            state = "expired"
    return BrokerAnswer.model_validate({"status": state, "broker_order_id": order.number, "fills": booked})


def fill_of(fill: VenueFill, money: str) -> BrokerFill:
    """Return a fill as the desk books it. A fee in the coin that was bought is worth so much at its price, and the coin
    that came is less by it. Raises VenueSilent for a fee in a third coin."""
    base, _, quote = fill.symbol.partition("-")
    commission, kept = fill.fee, None
    if fill.fee and fill.coin == base and fill.coin != quote and fill.side == "buy":
        commission, kept = fill.fee * fill.price, float(fill.fee)
    elif fill.fee and fill.coin != money:
        reason = f"the fee of fill {fill.id} is {_text(fill.fee)} {fill.coin}, and the account counts in {money}"
        remedy = f"have fees taken in {money} or in what is bought, then `desk reconcile --adopt`"
        raise VenueSilent(reason, remedy=remedy)
    return BrokerFill(
        id=fill.id,
        quantity=float(fill.quantity),
        price=float(fill.price),
        commission=float(commission),
        kept=kept,
        at=fill.at,
    )


@contextmanager
def readable(venue: Venue) -> Iterator[None]:
    """Raise VenueSilent for an answer that is not of the known shape."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise VenueSilent(f"an answer of {venue.title} cannot be read: {type(error).__name__}") from None


def amount(value: Any) -> Decimal:
    """Return a figure of a wire. Raises ValueError for one that is missing or none."""
    if value is None or isinstance(value, bool):
        raise ValueError("a figure is missing")
    found = Decimal(str(value))
    if not found.is_finite():
        raise ValueError("a figure is none")
    return found


def price_or_none(value: Any) -> Decimal | None:
    found = amount(value)
    return found if found else None


def moment_of(milliseconds: Decimal) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=int(milliseconds * 1000))


def _exact(value: float | None) -> Decimal | None:
    return None if value is None else exact(value)


def _text(value: Decimal) -> str:
    return format(value.normalize() if value else Decimal(0), "f")
