"""Prices that the market of the paper broker offers an order, and the end of an order without one."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from chordesk.models.contracts import MODELLED
from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.market import Quote
from chordesk.models.order_terms import shown
from chordesk.models.orders import BrokerFill, OrderTicket
from chordesk.models.settings import Settings
from chordesk.tools.brokers.paper_matching import Match, Session, at_close, at_open, matches
from chordesk.tools.decimals import exact, money
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.protocol import FillSource, MarketData
from chordesk.tools.market.quotes import met_by, quote_of
from chordesk.tools.risk import with_slippage

# Orders for the closing auction are taken until so long before the close.
_AUCTION_CUT = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Offer:
    """Matches of an order, the earliest first. ends: the state of what they leave unfilled, None while it waits;
    note: why."""

    matches: list[Match]
    ends: str | None = None
    note: str | None = None


def label_of(quotes: Sequence[Quote]) -> str | None:
    """Return the note of an order that fills at quotes which no market gave; None for any other."""
    modelled = any(quote.source == MODELLED for quote in quotes)
    return "filled at modelled quotes, which no market gave" if modelled else None


def started(ticket: OrderTicket, price: float) -> OrderTicket:
    """Return a trailing stop with the stop that it begins with, below or above `price`; any other ticket as it is."""
    if ticket.order_type != "trailing_stop" or ticket.trail_percent is None or ticket.stop_price is not None:
        return ticket
    share = exact(ticket.trail_percent) / 100
    stop = exact(price) * (1 - share if ticket.side == "sell" else 1 + share)
    return ticket.model_copy(update={"stop_price": float(stop)})


class PaperPrices:
    """Prices for orders, by their time in force. Nothing is later than the market knows, but the next open of a replay.
    A contract is bought at its ask and sold at its bid as they are now, where its market gives any.

    day, ioc    the fill price: the last quote of a live market, the next open of a replay. It is the only price of its
                day that a replay has, so that a day order it does not fill expires
    gtc         a market order as above; any other against each session that began after it was placed, once its bar is
                known, and on a live market against the last quote
    opg, cls    the open, or the close, of the first session whose auction the order is in time for
    """

    def __init__(self, market: MarketData, settings: Settings) -> None:
        assert isinstance(market, FillSource)
        self._market = market
        self._fills: FillSource = market
        self._slippage = settings.slippage_bps
        self._volume_share = exact(settings.paper_volume_share)

    def offer(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Offer:
        """Return what the market offers what is left of the order. Raises NotConfigured when it prices no such
        thing."""
        if ticket.time_in_force == "opg":
            return self._opening(ticket, booked)
        if ticket.time_in_force == "cls":
            return self._closing(ticket)
        if ticket.time_in_force == "gtc" and ticket.order_type != "market":
            return self._resting(ticket, booked)
        return self._now(ticket, booked)

    def sessions_since(self, symbol: str, since: dt.datetime) -> list[Session]:
        """Return the sessions that opened after `since` and whose bars the market knows, the earliest first."""
        now, hours = self._market.clock.now(), exchange_hours()
        try:
            bars = self._market.bars(symbol, (now - since).days + 2)
        except MarketError:
            return []
        found = []
        for place, day in enumerate(bars.dates):
            if hours.is_session(day) and hours.open_of(day) > since:
                room = self._share_of(float(bars.volume[place]))
                ends, close = min(hours.close_of(day), now), exact(float(bars.close[place]))
                if math.isnan(bars.open[place]):  # closes alone: a session of a single price at its end
                    found.append(Session(ends, ends, close, close, close, close, room))
                    continue
                opens, high, low = (exact(float(column[place])) for column in (bars.open, bars.high, bars.low))
                found.append(Session(hours.open_of(day), ends, opens, high, low, close, room))
        return found

    def _now(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Offer:
        at_once = ticket.time_in_force == "ioc"
        quote = self._quote(ticket)
        if quote is None:
            note = f"the market has no further session to fill {ticket.traded} in"
            return Offer([], "cancelled" if at_once else None, note)
        found = self._matched(ticket, [Session.of_quote(quote, self._room(ticket, booked))])
        if found:
            return Offer(found, "cancelled" if at_once else None, label_of([quote]))
        note = self._unmet(ticket, quote)
        if at_once:
            return Offer([], "cancelled", f"{note}; an ioc order does not wait")
        if quote.at <= self._market.clock.now() or ticket.time_in_force == "gtc":
            return Offer([], None, note)
        return Offer([], "expired", f"{note}; a day order meets no second price here")

    def _resting(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Offer:
        sessions = self.sessions_since(ticket.symbol, ticket.placed_at)
        last = booked[-1].at if booked else ticket.placed_at
        live = self._live(ticket, booked, last)
        found = self._matched(ticket, [*sessions, *live])
        later = [match for match in found if match.at > last]
        return Offer(later, None, None if later else f"{shown(ticket.order_type)} order, good until cancelled")

    def _live(self, ticket: OrderTicket, booked: Sequence[BrokerFill], last: dt.datetime) -> list[Session]:
        """Return the last quote of a live market while its exchange is open, if it is newer than `last`."""
        clock = self._market.clock
        try:
            quote = self._fills.fill_price(ticket.symbol)
        except MarketError:
            return []
        now = clock.now()
        if quote is None or not last < quote.at <= now or not clock.is_open():
            return []
        if exchange_day(quote.at) != exchange_day(now):
            return []
        return [Session.of_quote(quote, self._room(ticket, booked))]

    def _opening(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Offer:
        self._require_opens(ticket.symbol)
        quote = self._quote(ticket)
        if quote is not None and quote.at > self._market.clock.now():  # the next open of a replay
            session = Session.of_quote(quote, self._room(ticket, booked))
            return self._auction(ticket, at_open(ticket, session, self._slippage), "open", session)
        sessions = self.sessions_since(ticket.symbol, ticket.placed_at)
        if not sessions:
            return Offer([], None, "waits for the next opening price")
        return self._auction(ticket, at_open(ticket, sessions[0], self._slippage), "open", sessions[0])

    def _require_opens(self, symbol: str) -> None:
        """Raise NotConfigured when the market has closes alone."""
        try:
            opens = self._market.bars(symbol, 1).open
        except MarketError:
            return
        if math.isnan(opens[-1]):
            raise NotConfigured(f"not available: {self._market.name} has no opening price of {symbol}")

    def _closing(self, ticket: OrderTicket) -> Offer:
        day = dt.timedelta(days=1)
        for session in self.sessions_since(ticket.symbol, ticket.placed_at - day):
            close = exchange_hours().close_of(exchange_day(session.opens_at))
            if close - _AUCTION_CUT > ticket.placed_at:
                return self._auction(ticket, at_close(ticket, session, self._slippage), "close", session)
        return Offer([], None, "waits for the next closing price")

    def _auction(self, ticket: OrderTicket, found: Match | None, name: str, session: Session) -> Offer:
        if found is not None:
            return Offer([found], "expired")
        note = f"limit {money(ticket.limit_price or 0)} not met by the {name} of {exchange_day(session.opens_at)}"
        return Offer([], "expired", note)

    def _matched(self, ticket: OrderTicket, sessions: Sequence[Session]) -> list[Match]:
        return list(matches(ticket, sessions, self._slippage))

    def _unmet(self, ticket: OrderTicket, quote: Quote) -> str:
        at = f"{quote.at:%Y-%m-%d %H:%M %Z}"
        if ticket.stop_price is not None:
            return f"stop {money(ticket.stop_price)} or its limit not met by {money(quote.price)} at {at}"
        price = with_slippage(exact(quote.price), ticket.side, self._slippage)
        return f"limit {money(ticket.limit_price or 0)} not met by {money(price)} at {at}"

    def _quote(self, ticket: OrderTicket) -> Quote | None:
        """Return the quote that an order fills at. Raises NotConfigured when no such thing is priced here."""
        if ticket.contract is None:
            return self._fills.fill_price(ticket.symbol)
        return met_by(quote_of(self._market, ticket.contract), ticket.side)

    def _room(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Decimal | None:
        """Return how much more of the order the market takes today; None where it has no volume."""
        if ticket.contract is not None:
            return None
        try:
            bars = self._market.bars(ticket.symbol, 1)
        except MarketError:
            return None
        done = sum((exact(fill.quantity) for fill in booked), Decimal(0))
        share = self._share_of(float(bars.volume[-1]))
        return None if share is None else share - done

    def _share_of(self, volume: float) -> Decimal | None:
        if math.isnan(volume):
            return None
        return (exact(volume) * self._volume_share).to_integral_value(ROUND_FLOOR)
