"""The paper broker: fills at the market's own prices, with slippage, commission and the session's volume."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal

from models.contracts import parse_contract
from models.database.store import Store
from models.errors import MarketError, NotConfigured, SettingError
from models.market import Quote
from models.orders import AccountView, BrokerAnswer, BrokerFill, BrokerState, OrderTicket
from models.settings import Settings
from models.tables.orders import Preview
from tools.brokers import paper_books
from tools.decimals import exact, money, plain
from tools.market.clock import NEW_YORK, exchange_day
from tools.market.protocol import FillSource, MarketData
from tools.market.quotes import quote_of
from tools.risk import free_cash, opening_part, unit_exposure, with_slippage


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> PaperBroker:
    """Return the paper broker. Raises SettingError when the market prices no fills."""
    return PaperBroker(store, market, settings)


class PaperBroker:
    """Broker with the desk's own rows for orders and the ledger's for fills. What was not recorded never
    happened, so an order can be looked up again at any time.

    A market order fills at the fill price moved by the slippage against the order and rounded against it to 0.0001; a
    limit order at that price if the limit allows it. Where the next price of the day is still to come, an order that
    its limit holds back rests; on a market whose only further price is the next open it expires. An order fills up to a
    share of the last session's volume (whole where the market has no volume); the rest stays open until its day
    ends. What cash does not cover at the fill price is rejected, as a cash account would; a put is written against
    its strike in full. There are no corporate actions.
    """

    name = "paper"
    real_money = False

    def __init__(self, store: Store, market: MarketData, settings: Settings) -> None:
        if not isinstance(market, FillSource):
            raise SettingError(f"the market {market.name!r} prices no fills, and the paper broker needs them")
        self._store = store
        self._settings = settings
        self._market = market
        self._fills: FillSource = market
        self._commission = exact(settings.commission_per_share)
        self._volume_share = exact(settings.paper_volume_share)

    def on(self, market: MarketData) -> PaperBroker:
        """Return the paper broker over the same books on another market or day."""
        return PaperBroker(self._store, market, self._settings)

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Fill, part-fill, reject or expire the order, or let it rest."""
        if not self._market.clock.is_open():
            now = f"{self._market.clock.now():%Y-%m-%d %H:%M %Z}"
            return _answer(ticket, "rejected", f"the exchange is closed at {now}; a day order needs its session", [])
        return self.lookup(ticket, preview, account)

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Return the order against the market as it is now: a function of its row, its fills, and the market."""
        booked = self._booked(ticket)
        left = exact(ticket.quantity) - _total(booked)
        if left <= 0:
            return _answer(ticket, "filled", None, booked)
        over = self._over(ticket)
        if over is not None:
            return _answer(ticket, "expired", over, booked)
        return self._match(ticket, account, booked, left)

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        booked = self._booked(ticket)
        if _total(booked) >= exact(ticket.quantity):
            return _answer(ticket, "filled", None, booked)
        return _answer(ticket, "cancelled", "cancelled on request", booked)

    def state(self) -> BrokerState:
        today = self._market.clock.now().astimezone(NEW_YORK).replace(hour=0, minute=0, second=0, microsecond=0)
        with self._store.read() as session:
            books = paper_books.books_of(session, self.name, self._settings.starting_cash)
            fills = paper_books.recent_fills(session, self.name, today)
            open_orders = paper_books.resting(session, self.name)
        ended = paper_books.settlements(books, self._market)
        for leg in ended:
            books.move(leg.symbol, exact(leg.quantity), exact(leg.price))
        return BrokerState(
            account=self.name,
            cash=float(books.cash),
            equity=None,
            positions=books.positions(),
            open_orders=open_orders,
            fills=fills,
            settlements=ended,
        )

    def _booked(self, ticket: OrderTicket) -> list[BrokerFill]:
        with self._store.read() as session:
            return paper_books.fills_of(session, str(ticket.order_id))

    def _over(self, ticket: OrderTicket) -> str | None:
        """Return why an order can fill no more, None while its day lasts."""
        now = self._market.clock.now()
        if exchange_day(ticket.placed_at) != exchange_day(now):
            return f"day order of {exchange_day(ticket.placed_at)}; it is {exchange_day(now)} now"
        return None if self._market.clock.is_open() else f"day order, and the exchange is closed at {now:%H:%M %Z}"

    def _match(
        self, ticket: OrderTicket, account: AccountView, booked: list[BrokerFill], left: Decimal
    ) -> BrokerAnswer:
        waiting = "partially_filled" if booked else "submitted"
        try:
            quote = self._quote(ticket)
        except NotConfigured as error:
            return _answer(ticket, "cancelled" if booked else "rejected", str(error), booked)
        if quote is None:
            return _answer(ticket, waiting, f"the market has no further session to fill {ticket.traded} in", booked)
        price = with_slippage(exact(quote.price), ticket.side, self._settings.slippage_bps)
        if _beyond_limit(ticket, price):
            reason = f"limit {money(ticket.limit_price or 0)} not met by {money(price)} at {quote.at:%Y-%m-%d %H:%M %Z}"
            if quote.at <= self._market.clock.now():
                return _answer(ticket, waiting, reason, booked)
            return _answer(ticket, "expired", f"{reason}; a day order meets no second price here", booked)
        room = self._room(ticket, booked)
        taken = left if room is None else min(left, room)
        if taken <= 0:
            return _answer(ticket, waiting, self._volume_note(ticket, booked), booked)
        short = self._shortfall(ticket, taken, price, account)
        if short is not None:
            return _answer(ticket, "cancelled" if booked else "rejected", short, booked)
        commission = self._commission * taken
        fill = BrokerFill(quantity=float(taken), price=float(price), commission=float(commission), at=quote.at)
        fills = [*booked, fill]
        if taken == left:
            return _answer(ticket, "filled", None, fills)
        return _answer(ticket, "partially_filled", self._volume_note(ticket, fills), fills)

    def _quote(self, ticket: OrderTicket) -> Quote | None:
        """Return the quote that an order fills at. Raises NotConfigured when no such thing is priced here."""
        if ticket.contract is None:
            return self._fills.fill_price(ticket.symbol)
        return quote_of(self._market, ticket.contract)

    def _room(self, ticket: OrderTicket, booked: list[BrokerFill]) -> Decimal | None:
        """Return how much more of the order the market takes today; None where it has no volume."""
        if ticket.contract is not None:
            return None
        try:
            bars = self._market.bars(ticket.symbol, 1)
        except MarketError:
            return None
        most = (exact(float(bars.volume[-1])) * self._volume_share).to_integral_value(ROUND_FLOOR)
        return most - _total(booked)

    def _volume_note(self, ticket: OrderTicket, fills: list[BrokerFill]) -> str:
        done, share = plain(_total(fills)), f"{self._volume_share:.0%}"
        return f"{done} of {plain(ticket.quantity)} filled; an order takes {share} of a session's volume at most"

    def _shortfall(self, ticket: OrderTicket, taken: Decimal, price: Decimal, account: AccountView) -> str | None:
        """Return why the account cannot pay for so much of the order; None when it can."""
        held = sum((exact(row.quantity) for row in account.positions if row.symbol == ticket.traded), Decimal(0))
        opening = opening_part(held, ticket.side, taken)
        if not opening:
            return None
        contract = parse_contract(ticket.contract or "")
        if contract is not None and ticket.side == "sell" and contract.kind == "call":
            return f"{contract.symbol} would be written, and only puts are written here"
        need = opening * (unit_exposure(ticket.traded, ticket.side, price) + self._commission)
        free = free_cash(self._priced(account))
        if free is None:
            return "free cash is not known: a short position has no price"
        if need <= free:
            return None
        return f"{plain(opening)} {ticket.traded} at {money(price)} need {money(need)}, {money(free)} is free"

    def _priced(self, account: AccountView) -> AccountView:
        """Return the view with a price on each short that it has none of, as far as the market has one."""
        positions = []
        for position in account.positions:
            if position.quantity < 0 and position.market_price is None:
                try:
                    price = quote_of(self._market, position.symbol).price
                except MarketError:
                    price = None
                position = position.model_copy(update={"market_price": price})
            positions.append(position)
        return account.model_copy(update={"positions": positions})


def _beyond_limit(ticket: OrderTicket, price: Decimal) -> bool:
    if ticket.order_type != "limit" or ticket.limit_price is None:
        return False
    limit = exact(ticket.limit_price)
    return price > limit if ticket.side == "buy" else price < limit


def _total(fills: list[BrokerFill]) -> Decimal:
    return sum((exact(fill.quantity) for fill in fills), Decimal(0))


def _answer(ticket: OrderTicket, status: str, message: str | None, fills: list[BrokerFill]) -> BrokerAnswer:
    return BrokerAnswer.model_validate(
        {"status": status, "broker_order_id": f"paper-{ticket.order_id}", "fills": fills, "message": message}
    )
