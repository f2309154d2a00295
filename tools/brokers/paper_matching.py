"""The prices at which the paper broker fills an order against sessions: their open, their range, their close.

Nothing here looks ahead: the caller gives the sessions that its market knows and that began after the order was placed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from chordesk.models.market import Quote
from chordesk.models.orders import OrderTicket
from chordesk.tools.decimals import exact
from chordesk.tools.risk import with_slippage

_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True)
class Session:
    """Prices of one session, or of one quote, which is a session of a single price. room: how much of the order it
    takes, None for no limit. least, most: range that a fill lies within, None where it is not known."""

    opens_at: dt.datetime
    closes_at: dt.datetime
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    room: Decimal | None
    least: Decimal | None = None
    most: Decimal | None = None

    @classmethod
    def of_quote(cls, quote: Quote, room: Decimal | None) -> Session:
        price = exact(quote.price)
        low, high = (exact(end) if end is not None else None for end in (quote.low, quote.high))
        return cls(quote.at, quote.at, price, price, price, price, room, low, high)

    def slipped(self, price: Decimal, side: str, basis_points: float) -> Decimal:
        """Return a price after slippage, cut to the quote's session: beyond its range the market gave no fill."""
        slipped = with_slippage(price, side, basis_points)
        floored = slipped if self.least is None else max(slipped, self.least)
        return floored if self.most is None else min(floored, self.most)


@dataclass(frozen=True, slots=True)
class Match:
    """A price at which the order fills in a session, slippage included, and the time."""

    price: Decimal
    at: dt.datetime
    room: Decimal | None


def matches(ticket: OrderTicket, sessions: Sequence[Session], basis_points: float) -> Iterator[Match]:
    """Yield one match for each session in which the order fills, the earliest first.

    A stop that the open has passed fills at the open, one that is reached later at its price; then it is a market
    order, or the limit order that a stop-limit names. A limit fills at the open if that is better, else at the limit.
    """
    stop = exact(ticket.stop_price) if ticket.stop_price is not None else None
    triggered = ticket.order_type in ("market", "limit")
    for session in sessions:
        price: Decimal | None
        if triggered:
            price = session.open
        else:
            assert stop is not None, "an order with a trigger has a stop price"
            price = _trigger(ticket.side, stop, session)
            if price is None:
                stop = _trailed(ticket, stop, session)
                continue
        found = _at(ticket, session, price, basis_points, first=not triggered)
        triggered = True
        if found is not None:
            yield found


def at_open(ticket: OrderTicket, session: Session, basis_points: float) -> Match | None:
    """Return the fill of a market or limit order at the open alone."""
    return _auction(ticket, session, session.open, session.opens_at, basis_points)


def at_close(ticket: OrderTicket, session: Session, basis_points: float) -> Match | None:
    """Return the fill of a market or limit order at the close alone."""
    return _auction(ticket, session, session.close, session.closes_at, basis_points)


def _trigger(side: str, stop: Decimal, session: Session) -> Decimal | None:
    """Return the price at which a stop is reached in a session: the open when that has passed it, else the stop."""
    if side == "sell":
        if session.open <= stop:
            return session.open
        return stop if session.low <= stop else None
    if session.open >= stop:
        return session.open
    return stop if session.high >= stop else None


def _trailed(ticket: OrderTicket, stop: Decimal, session: Session) -> Decimal:
    """Return where a trailing stop stands for the next session. The session's own high does not move it for that
    session: whether it came before the low is not known."""
    if ticket.order_type != "trailing_stop" or ticket.trail_percent is None:
        return stop
    share = exact(ticket.trail_percent) / _HUNDRED
    if ticket.side == "sell":
        return max(stop, session.high * (1 - share))
    return min(stop, session.low * (1 + share))


def _at(ticket: OrderTicket, session: Session, reached: Decimal, basis_points: float, *, first: bool) -> Match | None:
    """Return the fill in a session whose price, from `reached` on, is what the order meets. first: the stop was
    reached in this session, at that price."""
    intraday = first and reached != session.open
    at = session.closes_at if intraday else session.opens_at
    slipped = session.slipped(reached, ticket.side, basis_points)
    if ticket.limit_price is None:
        return Match(slipped, at, session.room)
    limit = exact(ticket.limit_price)
    if _meets(ticket.side, slipped, limit):
        return Match(slipped, at, session.room)
    # After a stop that was reached within the session only its close is known to have come later.
    best = session.close if intraday else session.low if ticket.side == "buy" else session.high
    if best == reached or not _meets(ticket.side, best, limit):
        return None  # a single price is met with its slippage or not at all
    return Match(limit, session.closes_at, session.room)


def _meets(side: str, price: Decimal, limit: Decimal) -> bool:
    return price <= limit if side == "buy" else price >= limit


def _auction(
    ticket: OrderTicket, session: Session, price: Decimal, at: dt.datetime, basis_points: float
) -> Match | None:
    slipped = session.slipped(price, ticket.side, basis_points)
    if ticket.limit_price is not None and not _meets(ticket.side, slipped, exact(ticket.limit_price)):
        return None
    return Match(slipped, at, session.room)
