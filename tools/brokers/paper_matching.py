"""The prices at which the paper broker fills an order: what its market offers, the sessions since it was sent, and all
legs at once."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

from chordesk.models.day_limits import DayBand, day_limit_of
from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.exchanges import HOME, PriceSteps, at_listing, exchange_code
from chordesk.models.market import MODELLED, Quote, parse_contract
from chordesk.models.money import FxRate
from chordesk.models.order_terms import shown
from chordesk.models.orders import AccountView, BrokerFill, OrderTicket
from chordesk.models.settings import Settings
from chordesk.tools.decimals import exact, money
from chordesk.tools.market.actions import cash_growth
from chordesk.tools.market.clock import day_of, decision_time, exchange_day, exchange_hours, hours_of
from chordesk.tools.market.fx import listed_in
from chordesk.tools.market.price_steps import day_band, market_terms, symbol_terms
from chordesk.tools.market.prices import actions_of, doubt, in_doubt, met_by, quote_of, split_in_doubt, traded_bars
from chordesk.tools.market.protocol import Action, Bars, FillSource, MarketData
from chordesk.tools.risk.amounts import is_current
from chordesk.tools.risk.conduct import CLOSING_CUT
from chordesk.tools.risk.exposure import converted, cover_of, free_cash, held_in, net_price, with_slippage

_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True)
class Session:
    """Prices of one session, or of one quote, which is a session of a single price."""

    symbol: str
    opens_at: dt.datetime
    closes_at: dt.datetime
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    room: Decimal | None  # how much of the order it takes, None for no limit
    # least, most: range that a fill at the open lies within, None where it is not known
    least: Decimal | None = None
    most: Decimal | None = None
    begun: bool = False  # its open alone is known
    doubt: str = ""  # why nothing that rests at a price is carried out in it
    paid: Decimal = Decimal(1)  # what its prices are divided by for cash that was paid on the shares since
    steps: PriceSteps | None = None  # of its listing, at another exchange than New York
    locked: str = ""  # the side that found no other: all its prices were at the limit of the day

    @property
    def day(self) -> dt.date:
        return day_of(self.opens_at, self.symbol)

    @classmethod
    def of_quote(cls, quote: Quote, room: Decimal | None) -> Session:
        price = exact(quote.price)
        low, high = (exact(end) if end is not None else None for end in (quote.low, quote.high))
        return cls(quote.symbol, quote.at, quote.at, price, price, price, price, room, low, high)

    def at_one_price(self, price: Decimal, at: dt.datetime) -> Session:
        ends = (self.least, self.most)
        return replace(Session(self.symbol, at, at, price, price, price, price, self.room, *ends),
                       locked=self.locked, steps=self.steps)  # fmt: skip

    def opening(self) -> Session:
        return self.at_one_price(self.open, self.opens_at)

    def moved(self, price: Decimal, side: str, basis_points: float) -> Decimal:
        return with_slippage(self.symbol, price, side, basis_points, self.steps)

    def slipped(self, price: Decimal, side: str, basis_points: float) -> Decimal:
        slipped = self.moved(price, side, basis_points)
        floored = slipped if self.least is None else max(slipped, self.least)
        return floored if self.most is None else min(floored, self.most)


@dataclass(frozen=True, slots=True)
class Match:
    """A price at which the order fills in a session, slippage included, and the time."""

    price: Decimal
    at: dt.datetime
    room: Decimal | None


def matches(
    ticket: OrderTicket, sessions: Sequence[Session], basis_points: float, *, triggered: bool = False
) -> Iterator[Match]:
    """Yield one match for each session in which the order fills, the earliest first. A stop that the open has passed
    fills at the open, one that is reached later at its price; then it is a market order, or the limit order that a
    stop-limit names. A limit fills at the open if that is better, else at the limit. triggered: its stop was reached
    before these sessions."""
    stop = exact(ticket.stop_price) if ticket.stop_price is not None else None
    triggered = triggered or ticket.order_type in ("market", "limit")
    for session in sessions:
        if session.locked == ticket.side:
            continue
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
    return _auction(ticket, session.slipped(session.open, ticket.side, basis_points), session.opens_at, session.room)


def at_close(ticket: OrderTicket, session: Session, basis_points: float) -> Match | None:
    return _auction(ticket, session.moved(session.close, ticket.side, basis_points), session.closes_at, session.room)


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
        return max(stop, session.high / session.paid * (1 - share))
    return min(stop, session.low / session.paid * (1 + share))


def _at(ticket: OrderTicket, session: Session, reached: Decimal, basis_points: float, *, first: bool) -> Match | None:
    """Return the fill in a session whose price, from `reached` on, is what the order meets. first: the stop was
    reached in this session, at that price."""
    intraday = first and reached != session.open
    at = session.closes_at if intraday else session.opens_at
    # The open's range is known to hold for a fill at the open, whether its pass saw the open alone or the whole bar.
    slip = session.moved if intraday else session.slipped
    slipped = slip(reached, ticket.side, basis_points)
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


def _auction(ticket: OrderTicket, slipped: Decimal, at: dt.datetime, room: Decimal | None) -> Match | None:
    if ticket.limit_price is not None and not _meets(ticket.side, slipped, exact(ticket.limit_price)):
        return None
    return Match(slipped, at, room)


@dataclass(frozen=True, slots=True)
class Matches:
    """The fills that an order would get, the earliest first."""

    matches: list[Match]
    ends: str | None = None  # the state of what they leave unfilled, None while it waits
    note: str | None = None  # why

    def fills(self, left: Decimal, commission: Decimal) -> list[BrokerFill]:
        """Return what fills of so much that is left. commission: of a share or contract."""
        fills: list[BrokerFill] = []
        for match in self.matches:
            taken = left if match.room is None else min(left, match.room)
            if taken > 0:
                amounts = {"quantity": float(taken), "price": float(match.price)}
                fills.append(BrokerFill(**amounts, commission=float(commission * taken), at=match.at))
                left -= taken
        return fills


_AT_LIMIT = "{symbol} was at the limit of its day on {day}: nobody took the other side"


def locked_side(band: DayBand | None, low: Decimal, high: Decimal) -> str:
    """Return the side of an order that fills at none of these prices: a purchase where the lowest of them is the
    highest of the day, a sale where the highest is the lowest."""
    if band is None:
        return ""
    return "buy" if low >= band.high else "sell" if high <= band.low else ""


def label_of(quotes: Sequence[Quote]) -> str | None:
    """Return the note of an order that fills at quotes which no market gave; None for any other."""
    modelled = any(quote.source == MODELLED for quote in quotes)
    return "filled at modelled quotes, which no market gave" if modelled else None


def _doubt(symbol: str, bars: Bars, place: int, known: Sequence[Action]) -> str:
    """Return why a bar's first price may be of other shares than the bar before; "" where nothing says so."""
    day, opened = bars.dates[place], float(bars.open[place])
    if not place or any(bars.dates[place - 1] < action.day <= day for action in known):
        return ""
    split = split_in_doubt(float(bars.close[place - 1]), float(bars.close[place]) if math.isnan(opened) else opened)
    return in_doubt(symbol, split, day) if split is not None else ""


class PaperPrices:
    """Prices for orders, by their time in force. Nothing is later than the market knows.
    A contract is bought at its ask and sold at its bid as they are now, where its market gives any.

    day, ioc    the last quote of a live market. A market of past days fills them at its next open, once there is one:
                it is the only price of their day there, so that a day order it does not fill expires
    gtc         a market order of a live market as above; any other against each session that began after it was
                placed, once its bar is known, and on a live market against the last quote
    opg, cls    the open, or the close, of the first session whose auction the order is in time for

    A session gives an order one fill, whenever and however often it is looked up: after a fill only later sessions
    count. Only a live market's quotes fill in parts within a day, all together up to the share of the volume.

    at_open: the market's session has just begun, and of its bar the open alone is known.
    """

    def __init__(self, market: MarketData, settings: Settings, *, at_open: bool) -> None:
        self._market = market
        self.at_open = at_open
        self._settings = settings
        self._slippage = settings.slippage_bps
        self._volume_share = exact(settings.paper_volume_share)
        self._listed: dict[str, PriceSteps | None] = {}

    def match(self, ticket: OrderTicket, booked: Sequence[BrokerFill], *, placing: bool = False) -> Matches:
        """Return what the market offers what is left of the order. placing: it has just been sent. Raises
        NotConfigured when the market prices no such thing."""
        if ticket.time_in_force == "opg":
            return self._opening(ticket)
        if ticket.time_in_force == "cls":
            return self._closing(ticket)
        of_past = self._market.clock.day is not None and ticket.contract is None
        if ticket.time_in_force == "gtc" and (of_past or ticket.order_type != "market"):
            return self._resting(ticket, booked, placing=placing)
        if of_past:
            return self._at_next_open(ticket)
        return self._now(ticket, booked)

    def sessions_since(self, symbol: str, since: dt.datetime) -> list[Session]:
        """Return the sessions that did not open before `since` and whose bars the market knows, the earliest first."""
        hours = hours_of(symbol)
        return [one for day, one in self._sessions(symbol, since) if hours.open_of(day) >= since]

    def _sessions(self, symbol: str, since: dt.datetime) -> Iterator[tuple[dt.date, Session]]:
        """Yield the sessions from the day of `since` on."""
        code = exchange_code(symbol)
        hours, first = exchange_hours(code), exchange_day(since, code)
        try:
            bars = traded_bars(self._market, symbol, (self._market.clock.now() - since).days + 2)
        except MarketError:
            return
        known, steps = actions_of(self._market, symbol, bars.dates[0]), self._steps(symbol)
        cash = [one for one in known if one.growth != one.split]
        for place, day in enumerate(bars.dates):
            if day < first or not hours.is_session(day):
                continue
            room, start, ends = self._share_of(float(bars.volume[place])), hours.open_of(day), self._end_of(day, code)
            close, why = exact(float(bars.close[place])), _doubt(symbol, bars, place, known)
            begun = self.at_open and day == self._market.clock.session(code)
            locked = self._locked(symbol, bars, place, known)
            if math.isnan(bars.open[place]):  # closes alone: a session of a single price at its end
                if not begun:
                    at_end = Session(symbol, ends, ends, close, close, close, close, room)
                    yield day, replace(at_end, doubt=why, locked=locked, steps=steps)
                continue
            opens, high, low = (exact(float(column[place])) for column in (bars.open, bars.high, bars.low))
            if begun:
                at_once = Session(symbol, start, start, opens, opens, opens, opens, room, low, high)
                yield day, replace(at_once, begun=True, doubt=why, locked=locked, steps=steps)
            else:
                paid = exact(math.prod(cash_growth(action) for action in cash if action.day > day))
                whole = Session(symbol, start, ends, opens, high, low, close, room, low, high)
                yield day, replace(whole, paid=paid, doubt=why, locked=locked, steps=steps)

    def _locked(self, symbol: str, bars: Bars, place: int, known: Sequence[Action]) -> str:
        """Return the side of an order that a bar fills nothing of: it was at the limit of its day all day, so that
        nobody took the other side. Nothing is said of a day on which the shares became other ones."""
        before, day = place - 1, bars.dates[place]
        if before < 0 or any(bars.dates[before] < action.day <= day for action in known):
            return ""
        band = day_band(symbol, [float(bars.close[before])])
        low, high = (float(ends[place]) for ends in (bars.low, bars.high))
        if math.isnan(low) or math.isnan(high):
            low = high = float(bars.close[place])
        return locked_side(band, exact(low), exact(high))

    def _steps(self, symbol: str) -> PriceSteps | None:
        """Return the steps at which a symbol fills; None in New York, and where they are not known."""
        if exchange_code(symbol) == HOME or parse_contract(symbol) is not None:
            return None
        if symbol not in self._listed:
            try:
                terms = market_terms(self._market, self._market.listing(symbol))
            except MarketError:
                terms = symbol_terms(symbol)
            self._listed[symbol] = terms.steps if terms.why_not is None else None
        return self._listed[symbol]

    def _end_of(self, day: dt.date, code: str) -> dt.datetime:
        """Return when a session ends for the books: in a market of past days when its close is decided on, whichever
        pass looks at it, so that the fill is of the day whose equity has it."""
        clock = self._market.clock
        return (
            decision_time(day, code) if clock.day is not None else min(exchange_hours(code).close_of(day), clock.now())
        )

    def _at_next_open(self, ticket: OrderTicket) -> Matches:
        """Return what the first session after the order was placed offers at its open, or at its one price."""
        ends = {"ioc": "cancelled", "day": "expired"}[ticket.time_in_force]
        if passed := self._passed(ticket):
            filled = self._matched(ticket, passed)
            return Matches(filled, ends, None if filled else self._unmet(ticket, passed[0].open, passed[0].opens_at))
        found, first = (
            self.sessions_since(ticket.symbol, ticket.placed_at),
            self._first_since(ticket.symbol, ticket.placed_at),
        )
        if first is None:
            return Matches([], None, "waits for the open of the next session")
        if not found or found[0].day != first:
            known = not self.at_open or first < self._market.clock.session(exchange_code(ticket.symbol))
            return Matches([], ends if known else None, f"{ticket.symbol} has no price in the session of {first}")
        session = found[0].opening()
        if session.locked == ticket.side:
            return Matches([], ends, _AT_LIMIT.format(symbol=ticket.symbol, day=session.day))
        filled = self._matched(ticket, [session])
        return Matches(filled, ends, None if filled else self._unmet(ticket, session.open, session.opens_at))

    def _first_since(self, symbol: str, since: dt.datetime) -> dt.date | None:
        """Return the market's first session that did not open before `since`; None while it knows none."""
        code = exchange_code(symbol)
        hours = exchange_hours(code)
        days = self._market.sessions((self._market.clock.session(code) - exchange_day(since, code)).days + 2)
        return next((day for day in days if hours.is_session(day) and hours.open_of(day) >= since), None)

    def _now(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Matches:
        at_once = ticket.time_in_force == "ioc"
        quote = self._quote(ticket)
        if quote is None:
            return Matches([], "cancelled" if at_once else None, f"the market has no price to fill {ticket.traded} at")
        met = self._quoted(ticket, quote, booked)
        found = self._matched(ticket, [met])
        if met.locked == ticket.side:
            note = _AT_LIMIT.format(symbol=ticket.symbol, day=day_of(quote.at, ticket.symbol))
            return Matches([], "cancelled" if at_once else None, note)
        if found:
            return Matches(found, "cancelled" if at_once else None, label_of([quote]))
        note = self._unmet(ticket, exact(quote.price), quote.at)
        return Matches([], "cancelled", f"{note}; an ioc order does not wait") if at_once else Matches([], None, note)

    def _resting(self, ticket: OrderTicket, booked: Sequence[BrokerFill], *, placing: bool) -> Matches:
        """Match an order with the sessions since it was placed, or since its last fill: a session that has filled a
        part is used up, and what has filled a part of a stop has triggered it. A session in doubt meets market orders
        alone."""
        sessions = [*self._passed(ticket), *self.sessions_since(ticket.symbol, ticket.placed_at)]
        last = booked[-1].at if booked else ticket.placed_at
        if booked:
            sessions = [one for one in sessions if one.day > day_of(last, ticket.symbol)]
        live = self._live(ticket, booked, last, placing=placing)
        why = ""
        if ticket.order_type != "market":
            why = next((one.doubt for one in [*sessions, *live][-1:]), "")
            sessions, live = ([one for one in met if not one.doubt] for met in (sessions, live))
        found = list(matches(ticket, [*sessions, *live], self._slippage, triggered=bool(booked)))
        if found:
            return Matches(found)
        if ticket.order_type == "market":
            return Matches([], None, "waits for the open of the next session")
        return Matches([], None, why or f"{shown(ticket.order_type)} order, good until cancelled")

    def _passed(self, ticket: OrderTicket) -> list[Session]:
        """Return the price at which a stop was placed that it had passed already, as the session of a single price:
        it is met at once. Only of an order that was placed after a session's close is decided on: of another moment
        within a session a daily bar has no price, and its low may be of before."""
        if ticket.stop_price is None or self._market.clock.day is None or ticket.contract is not None:
            return []
        code = exchange_code(ticket.symbol)
        placed, hours = exchange_day(ticket.placed_at, code), exchange_hours(code)
        if not hours.is_session(placed) or not decision_time(placed, code) <= ticket.placed_at < hours.close_of(placed):
            return []
        bar = next((one for day, one in self._sessions(ticket.symbol, ticket.placed_at) if day == placed), None)
        if bar is None or bar.begun or bar.doubt:
            return []
        price = bar.at_one_price(bar.close, ticket.placed_at)
        return [price] if _trigger(ticket.side, exact(ticket.stop_price), price) is not None else []

    def _live(
        self, ticket: OrderTicket, booked: Sequence[BrokerFill], last: dt.datetime, *, placing: bool
    ) -> list[Session]:
        """Return the last quote of a live market while its exchange is open, if it is newer than `last`. An order that
        has just been placed meets the quote that stands, at its own time."""
        clock = self._market.clock
        if clock.day is not None:
            return []
        try:
            quote = self._quote(ticket)
        except MarketError:
            return []
        now, code = clock.now(), exchange_code(ticket.symbol)
        if quote is None or quote.at > now or not clock.is_open(code):
            return []
        if day_of(quote.at, ticket.symbol) != day_of(now, ticket.symbol):
            return []
        if quote.at <= last:
            if not placing or not is_current(quote, now, self._settings):
                return []
            quote = quote.model_copy(update={"at": now})
        why = doubt(self._market, ticket.symbol, quote.price) if ticket.contract is None else None
        return [replace(self._quoted(ticket, quote, booked), doubt=why or "")]

    def _quoted(self, ticket: OrderTicket, quote: Quote, booked: Sequence[BrokerFill]) -> Session:
        """Return a live quote as the session of a single price."""
        session = replace(Session.of_quote(quote, self._room(ticket, booked)), steps=self._steps(ticket.traded))
        if ticket.contract is not None or day_limit_of(ticket.symbol) is None:
            return session
        try:
            closes = traded_bars(self._market, ticket.symbol, 1).close
        except MarketError:
            return session
        band = day_band(ticket.symbol, [float(closes[-1])] if len(closes) else [])
        return replace(session, locked=locked_side(band, session.low, session.high))

    def _opening(self, ticket: OrderTicket) -> Matches:
        self._require_opens(ticket.symbol)
        sessions = self.sessions_since(ticket.symbol, ticket.placed_at)
        if not sessions:
            return Matches([], None, "waits for the next opening price")
        return self._auction(ticket, at_open(ticket, sessions[0], self._slippage), "open", sessions[0])

    def _require_opens(self, symbol: str) -> None:
        """Raise NotConfigured when the market has closes alone."""
        try:
            opens = self._market.bars(symbol, 1).open
        except MarketError:
            return
        if math.isnan(opens[-1]):
            raise NotConfigured(f"not available: {self._market.name} has no opening price of {symbol}")

    def _closing(self, ticket: OrderTicket) -> Matches:
        day = dt.timedelta(days=1)
        for session in self.sessions_since(ticket.symbol, ticket.placed_at - day):
            close = hours_of(ticket.symbol).close_of(session.day)
            if close - CLOSING_CUT > ticket.placed_at and not session.begun:
                return self._auction(ticket, at_close(ticket, session, self._slippage), "close", session)
        return Matches([], None, "waits for the next closing price")

    def _auction(self, ticket: OrderTicket, found: Match | None, name: str, session: Session) -> Matches:
        if found is not None:
            return Matches([found], "expired")
        note = f"limit {self._price_text(ticket, ticket.limit_price or 0)} not met by the {name} of {session.day}"
        return Matches([], "expired", note)

    def _matched(self, ticket: OrderTicket, sessions: Sequence[Session]) -> list[Match]:
        return list(matches(ticket, sessions, self._slippage))

    def _unmet(self, ticket: OrderTicket, offered: Decimal, at: dt.datetime) -> str:
        if ticket.stop_price is not None:
            stop, met = self._price_text(ticket, ticket.stop_price), self._price_text(ticket, offered)
            return f"stop {stop} or its limit not met by {met} at {at_listing(at, ticket.symbol)}"
        price = with_slippage(ticket.symbol, offered, ticket.side, self._slippage)
        limit, met = self._price_text(ticket, ticket.limit_price or 0), self._price_text(ticket, price)
        return f"limit {limit} not met by {met} at {at_listing(at, ticket.symbol)}"

    def _price_text(self, ticket: OrderTicket, price: float | Decimal) -> str:
        return money(price, listed_in(self._market, ticket.traded))

    def _quote(self, ticket: OrderTicket) -> Quote | None:
        """Return the quote that an order fills at. Raises NotConfigured when no such thing is priced here."""
        if ticket.contract is None:
            return self._market.fill_price(ticket.symbol) if isinstance(self._market, FillSource) else None
        return met_by(quote_of(self._market, ticket.contract), ticket.side)

    def _room(self, ticket: OrderTicket, booked: Sequence[BrokerFill]) -> Decimal | None:
        """Return how much more of the order the market takes today; None where it has no volume."""
        if ticket.contract is not None:
            return None
        try:
            bars = self._market.bars(ticket.symbol, 1)
        except MarketError:
            return None
        today = day_of(self._market.clock.now(), ticket.symbol)
        filled = (exact(fill.quantity) for fill in booked if day_of(fill.at, ticket.symbol) == today)
        done = sum(filled, Decimal(0))
        share = self._share_of(float(bars.volume[-1]))
        return None if share is None else share - done

    def _share_of(self, volume: float) -> Decimal | None:
        if math.isnan(volume):
            return None
        return (exact(volume) * self._volume_share).to_integral_value(ROUND_FLOOR)


LegsMatch = tuple[str, str | None, list[BrokerFill]]  # state, message, fills


def match_legs(
    ticket: OrderTicket, account: AccountView, market: MarketData, settings: Settings, fx: FxRate | None = None
) -> LegsMatch:
    """Fill all legs, each at its quote moved by the slippage, or none while the limit does not allow their net price.
    What cash or shares do not cover at its worst is rejected. account: with prices as far as the market has them; fx:
    of their prices, where these are not in the account's currency."""
    try:
        quotes = {leg.contract: met_by(quote_of(market, leg.contract), leg.side) for leg in ticket.legs}
    except NotConfigured as error:
        return "rejected", str(error), []
    except MarketError as error:
        return "submitted", f"no price to fill at: {error}", []
    bps, fee = settings.slippage_bps, exact(settings.commission_per_share)
    prices = {leg.contract: _slipped(quotes[leg.contract], leg.side, bps) for leg in ticket.legs}
    net, limit = net_price(ticket.legs, prices, ticket.side), exact(ticket.limit_price or 0)
    if net > limit if ticket.side == "buy" else net < limit:
        currency = fx.currency if fx else account.currency
        return "submitted", f"net limit {money(limit, currency)} not met by {money(net, currency)}", []
    short = _shortfall(ticket, net, fee, account, fx)
    if short is not None:
        return "rejected", short, []
    fills = [
        BrokerFill(
            symbol=traded,
            side=side,
            quantity=quantity,
            price=float(prices[traded]),
            commission=float(fee * exact(quantity)),
            at=quotes[traded].at,
        )
        for traded, side, quantity in ticket.parts
    ]
    return "filled", label_of(list(quotes.values())), fills


def _slipped(quote: Quote, side: str, basis_points: float) -> Decimal:
    return Session.of_quote(quote, None).slipped(exact(quote.price), side, basis_points)


def _shortfall(ticket: OrderTicket, net: Decimal, fee: Decimal, account: AccountView, fx: FxRate | None) -> str | None:
    book = held_in(ticket.symbol, account.positions)
    before, after = cover_of(book), cover_of(_with_legs(ticket, book))
    if after.naked > before.naked:
        return "the legs would leave a written call without its 100 shares"
    paid = net * exact(ticket.quantity) * exact(ticket.multiplier) * (1 if ticket.side == "buy" else -1)
    need = converted(paid + after.cash - before.cash, fx) + fee * exact(ticket.whole)
    free = free_cash(account)
    if need <= 0 or (free is not None and need <= free):
        return None
    left = "an unknown sum" if free is None else money(free, account.currency)
    return f"the legs need {money(need, account.currency)} at worst, {left} is free"


def _with_legs(ticket: OrderTicket, book: Mapping[str, Decimal]) -> dict[str, Decimal]:
    after = dict(book)
    for traded, side, quantity in ticket.parts:
        after[traded] = after.get(traded, Decimal(0)) + (exact(quantity) if side == "buy" else -exact(quantity))
    return after
