"""The paper broker and its own books: fills at the market's own prices, with slippage, commission and the session's
volume."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.exchanges import EXCHANGES, exchange_code, of_place
from chordesk.models.order_terms import follows_dividends
from chordesk.models.orders import (
    AccountView,
    BrokerAnswer,
    BrokerFill,
    BrokerState,
    OrderTicket,
    Settlement,
)
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import PAPER
from chordesk.models.tables.orders import BookedSettlement, Fill, Order, Preview
from chordesk.models.text import NEW_YORK
from chordesk.tools.books import ROWS_A_MARK, Books, books_of, duties_sum, keep_marks
from chordesk.tools.brokers.early_exercise import exercised_now
from chordesk.tools.brokers.paper_matching import Matches, PaperPrices, match_legs
from chordesk.tools.brokers.paper_money import PaperMoney, rated
from chordesk.tools.brokers.paper_rows import RESTING, fills_of, position_of, recent_fills, resting
from chordesk.tools.brokers.paper_settlements import changes, ended_legs, settlements
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import (
    RENAMED,
    adjusted_contracts,
    bought_on,
    not_standard,
)
from chordesk.tools.market.clock import at_exchange, day_of, hours_of
from chordesk.tools.market.prices import (
    actions_of,
    named_on,
    names_of,
    quote_of,
    renamed,
)
from chordesk.tools.market.protocol import FillSource, MarketData, RecordedSessions
from chordesk.tools.risk.exposure import (
    cover_of,
    free_cash,
    held_in,
    opening_part,
    started,
    underlying_of,
    unit_exposure,
)

_ACTIONS_BACK = 366  # days: a desk may have been down for long


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> PaperBroker:
    """Return the paper broker. Raises SettingError when the market prices no fills."""
    return PaperBroker(store, market, settings)


class PaperBroker:
    """Broker with the desk's own rows for orders and the ledger's for fills. What was not recorded never
    happened, so an order can be looked up again at any time.

    Prices and times in force are those of `PaperPrices`. An order fills up to a share of a session's volume (whole
    where the market has no volume); the rest stays open until its time is over. What cash does not cover at the fill
    price is rejected, as a cash account would; a put is written against its strike in full, a call against
    100 shares. An order with legs fills as a whole or not at all. Splits and dividends are booked before the open of
    their day, as far as the market knows them; a name that is traded no more ends.
    """

    real_money = False

    def __init__(
        self, store: Store, market: MarketData, settings: Settings, account: str = PAPER, *, at_open: bool = False
    ) -> None:
        """account: that of a backtest in place of the broker's own. at_open: as of PaperPrices."""
        if not isinstance(market, FillSource | RecordedSessions):
            raise SettingError(f"the market {market.name!r} prices no fills, and the paper broker needs them")
        self.name = account
        self._store = store
        self._settings = settings
        self._market = market
        self._rates = PaperMoney(store, market, settings, account)
        self._prices = PaperPrices(market, settings, at_open=at_open)
        self._commission = exact(settings.commission_per_share)

    def on(self, market: MarketData, *, at_open: bool = False) -> PaperBroker:
        return PaperBroker(self._store, market, self._settings, self.name, at_open=at_open)

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        exchange = exchange_code(ticket.symbol)
        if ticket.time_in_force in ("day", "ioc") and not self._market.clock.is_open(exchange):
            now = at_exchange(self._market.clock.now(), exchange)
            why = (
                f"the exchange{of_place(exchange)} is closed at {now}; a {ticket.time_in_force} order needs its session"
            )
            return _answer(ticket, "rejected", why, [])
        return self._look_up(ticket, preview, account, placing=True)

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Return the order against the market as it is now: a function of its row, its fills, and the market."""
        return self._look_up(ticket, preview, account, placing=False)

    def _look_up(self, ticket: OrderTicket, preview: Preview, account: AccountView, *, placing: bool) -> BrokerAnswer:
        ticket = started(ticket, preview.price)
        booked = self._booked(ticket)
        left = exact(ticket.whole) - _total(booked)
        if left <= 0:
            return _answer(ticket, "filled", None, booked)
        if (strange := self._not_standard(ticket)) is not None:
            return _answer(ticket, "cancelled" if booked else "rejected", strange, booked)
        if (due := self._restated_later(ticket)) is not None:
            return _answer(ticket, "partially_filled" if booked else "submitted", due, booked)
        over = self._over(ticket)
        if over is not None:
            return _answer(ticket, "expired", over, booked)
        return self._match(ticket, account, booked, left, placing=placing)

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        booked = self._booked(ticket)
        if _total(booked) >= exact(ticket.whole):
            return _answer(ticket, "filled", None, booked)
        return _answer(ticket, "cancelled", "cancelled on request", booked)

    def state(self) -> BrokerState:
        today = self._market.clock.now().astimezone(NEW_YORK).replace(hour=0, minute=0, second=0, microsecond=0)
        with self._store.read() as session:
            books = books_of(session, self.name, self._settings.starting_cash)
            currency = self._rates.money().base
            fills = recent_fills(session, self.name, today)
            open_orders = resting(session, self.name)
            adjusted = adjusted_contracts(session, self.name)
            changes = self._changes(session, {*books.held, *(order.symbol for order in open_orders)}, adjusted)
        if books.rows > 2 * ROWS_A_MARK:
            with self._store.session() as session:
                keep_marks(session, self.name)
        for leg in changes:
            books.settle(leg)
            if leg.kind == "adjusted":
                adjusted.setdefault(leg.symbol, day_of(leg.at, leg.symbol))
        over = settlements(books, self._market, self._settings.delisted_pays, adjusted)
        over += self._exercised(books, {*adjusted, *(leg.symbol for leg in over)})
        for leg in (ended := list(self._rates.rated_legs(over, books))):
            books.settle(leg)
        return BrokerState(
            account=self.name,
            cash=float(books.cash),
            equity=None,
            currency=currency,
            positions=[position_of(books, name) for name in sorted(books.held)],
            open_orders=open_orders,
            fills=fills,
            settlements=[*changes, *ended],
        )

    def _exercised(self, books: Books, but: Collection[str]) -> list[Settlement]:
        """What is exercised before its expiry, once the session is over."""
        clock = self._market.clock
        if self._prices.at_open or (clock.day is None and clock.is_open()):
            return []
        now = clock.now()
        found = exercised_now(books, self._market, self._settings.risk_free_rate, but)
        legs = (leg for contract, held, close in found for leg in ended_legs(contract, held, close, now, Decimal(1)))
        return [leg.model_copy(update={"id": f"{leg.id}/{day_of(now, leg.symbol)}"}) for leg in legs]

    def _changes(self, session: Session, symbols: Iterable[str], adjusted: Mapping[str, dt.date]) -> list[Settlement]:
        """What splits and dividends of the last year do to these positions and open orders, as far as not booked. A
        later action finds what an earlier one leaves, and a name that was sold since what was held on its day."""
        since = self._market.clock.session() - dt.timedelta(days=_ACTIONS_BACK)
        waiting = self._waiting(session)
        spans = self._traded(session, since)
        found: list[Settlement] = []
        due = deque(sorted({*symbols, *waiting, *spans}))
        known = set(due)
        while due:
            symbol = due.popleft()
            own = named_on(self._market, symbol)  # what came before was booked under the name of that day
            for action in actions_of(self._market, underlying_of(symbol), since):
                if own is not None and action.day < own:
                    continue
                waits = any(day < action.day and (action.split != 1 or falls) for day, falls in waiting.get(symbol, ()))
                first, last = spans.get(symbol, (action.day, action.day))
                if symbol in symbols or waits or first < action.day <= last:
                    books = self._before(session, symbol, action.day, found)
                    held, cost = books.held.get(symbol, (Decimal(0), Decimal(0)))
                    if held or waits:
                        split_on = adjusted.get(symbol, action.day)
                        due_legs = changes(symbol, held, cost, action, self._market, split_on < action.day)
                        legs = self._rates.rated_legs(due_legs, books)
                        found += [one for one in legs if session.get(BookedSettlement, (self.name, one.id)) is None]
            due += (more := {one.symbol for one in found} - known)
            known |= more
            symbols = {*symbols, *more}
        return [*sorted(found, key=lambda one: one.at), *self._renames(session, {*symbols, *waiting}, found)]

    def _renames(self, session: Session, symbols: Iterable[str], due: Sequence[Settlement]) -> list[Settlement]:
        """Return the moves of positions to the names that their shares bear now."""
        found: list[Settlement] = []
        for old in sorted(symbols):
            if (change := renamed(self._market, old)) is None:
                continue
            new, day = change
            books = books_of(session, self.name, self._settings.starting_cash, symbol=old)
            for leg in (one for one in due if one.symbol == old):
                books.settle(leg)
            held, cost = books.held.get(old, (Decimal(0), Decimal(0)))
            legs = []
            for symbol, quantity in ((old, -held), (new, held)):
                facts = {"id": f"{new}/{day}/{RENAMED}/{old}/{symbol}", "kind": "converted", "symbol": symbol}
                amounts = {"quantity": float(quantity), "price": float(cost), "at": hours_of(symbol).open_of(day)}
                legs.append(Settlement.model_validate({**facts, **amounts}))
            for leg in self._rates.rated_legs(legs, books):
                if session.get(BookedSettlement, (self.name, leg.id)) is None:
                    found.append(leg)
        return found

    def _before(self, session: Session, symbol: str, day: dt.date, due: Iterable[Settlement]) -> Books:
        """Return the books with what was held of a symbol the evening before a day. due: legs that are not booked."""
        opened = hours_of(symbol).open_of(day)
        before = opened - dt.timedelta(seconds=1)
        books = books_of(session, self.name, self._settings.starting_cash, before, symbol)
        for leg in due:
            if leg.symbol == symbol and leg.at < opened:
                books.settle(leg)
        return books

    def _waiting(self, session: Session) -> dict[str, list[tuple[dt.date, bool]]]:
        """Return the days of resting orders by underlying, with whether each follows cash."""
        found: dict[str, list[tuple[dt.date, bool]]] = defaultdict(list)
        which = col(Order.account) == self.name, col(Order.state).in_(RESTING)
        for order in session.exec(select(Order).where(*which)).all():
            falls = bool(order.contract or order.legs) or follows_dividends(order.side, order.order_type)
            found[order.symbol].append((day_of(order.market_at, order.symbol), falls))
        return found

    def _traded(self, session: Session, since: dt.date) -> dict[str, tuple[dt.date, dt.date]]:
        """Return the days of the first and the last fill by symbol since a day."""
        at = func.min(Fill.filled_at), func.max(Fill.filled_at)
        begun = dt.datetime.combine(since, dt.time.min, NEW_YORK)
        which = col(Fill.account) == self.name, col(Fill.filled_at) >= begun
        rows = session.exec(select(Fill.symbol, *at).where(*which).group_by(Fill.symbol)).all()
        return {symbol: (day_of(first, symbol), day_of(last, symbol)) for symbol, first, last in rows}

    def _booked(self, ticket: OrderTicket) -> list[BrokerFill]:
        with self._store.read() as session:
            return fills_of(session, ticket)

    def _not_standard(self, ticket: OrderTicket) -> str | None:
        if not (ticket.contract or ticket.legs):
            return None
        with self._store.read() as session:
            adjusted = adjusted_contracts(session, self.name)
        traded = [leg.contract for leg in ticket.legs] or [ticket.traded]
        return next((not_standard(name, adjusted[name]) for name in traded if name in adjusted), None)

    def _restated_later(self, ticket: OrderTicket) -> str | None:
        """Return why an order waits whose terms are of shares before an action that is not booked yet."""
        if ticket.contract or ticket.legs:
            return None
        falls = follows_dividends(ticket.side, ticket.order_type)
        for action in actions_of(self._market, ticket.symbol, day_of(ticket.placed_at, ticket.symbol)):
            kinds = (("split", action.split != 1), ("dividend", action.dividend and falls))
            for kind in (kind for kind, changes_it in kinds if changes_it):
                ids = [f"{name}/{action.day}/{kind}" for name in names_of(self._market, ticket.symbol)]
                with self._store.read() as session:
                    if all(session.get(BookedSettlement, (self.name, one)) is None for one in ids):
                        return f"{ticket.symbol} had a {kind} on {action.day}: the books have yet to follow"
        return None

    def _over(self, ticket: OrderTicket) -> str | None:
        """Return why an order of one day can fill no more, None while its day lasts."""
        if ticket.time_in_force not in ("day", "ioc"):
            return None
        if self._market.clock.day is not None and not (ticket.contract or ticket.legs):
            return None  # its one price comes with the next open
        if (late := self._late(ticket)) is not None or self._market.clock.is_open(exchange_code(ticket.symbol)):
            return late
        return f"{ticket.time_in_force} order, and the exchange is closed at {self._market.clock.now():%H:%M %Z}"

    def _late(self, ticket: OrderTicket) -> str | None:
        """Return why an order of one day is late, when it is not of the market's day."""
        placed, today = (day_of(at, ticket.symbol) for at in (ticket.placed_at, self._market.clock.now()))
        return None if placed == today else f"{ticket.time_in_force} order of {placed}; it is {today} now"

    def _match(
        self, ticket: OrderTicket, account: AccountView, booked: list[BrokerFill], left: Decimal, *, placing: bool
    ) -> BrokerAnswer:
        if ticket.legs:
            return self._match_legs(ticket, account)
        try:
            found = self._prices.match(ticket, booked, placing=placing)
        except NotConfigured as error:
            return _answer(ticket, "cancelled" if booked else "rejected", str(error), booked)
        except MarketError as error:
            waiting = "partially_filled" if booked else "submitted"
            return _answer(ticket, waiting, f"no price to fill at: {error}", booked)
        found, frozen = self._sellable(ticket, account, found, left)
        fresh = found.fills(left, self._commission)
        taken = _total(fresh)
        if fresh:
            opens = opening_part(_held(account, ticket.traded), ticket.side, taken) > 0
            try:
                rates = [self._rates.rate_at(ticket.traded, fill.at, opens=opens) for fill in fresh]
            except MarketError as error:
                waiting = "partially_filled" if booked else "submitted"
                return _answer(ticket, found.ends or waiting, str(error), booked)
            fresh = self._rates.taxed(ticket, booked, [rated(*each) for each in zip(fresh, rates, strict=True)], rates)
            short = self._shortfall(ticket, taken, fresh, account)
            if short is not None:
                return _answer(ticket, "cancelled" if booked else "rejected", short, booked)
        fills = [*booked, *fresh]
        if taken == left:
            return _answer(ticket, "filled", found.note, fills)
        note = frozen or (self._volume_note(ticket, fills) if found.matches else found.note)
        waiting = "partially_filled" if fills else "submitted"
        return _answer(ticket, found.ends or waiting, note, fills)

    def _sellable(
        self, ticket: OrderTicket, account: AccountView, found: Matches, left: Decimal
    ) -> tuple[Matches, str | None]:
        """Return the matches without those of a day on which shares that a sale needs were bought, where an exchange
        lets these be sold from the next session on, and a note where there were any."""
        exchange = EXCHANGES[exchange_code(ticket.symbol)]
        if ticket.side != "sell" or ticket.is_option or exchange.sells_same_day or not found.matches:
            return found, None
        held = _held(account, ticket.symbol)
        days = {day_of(match.at, ticket.symbol) for match in found.matches}
        with self._store.read() as session:
            bought = {day: bought_on(session, self.name, ticket.symbol, day) for day in days}
        frozen = {day for day, quantity in bought.items() if quantity and held - quantity < left}
        kept = [match for match in found.matches if day_of(match.at, ticket.symbol) not in frozen]
        if not frozen:
            return found, None
        why = f"{ticket.symbol} that was bought on {max(frozen)} is sold in {exchange.place} from the next session on"
        return replace(found, matches=kept, ends=None if not kept else found.ends), None if kept else why

    def _volume_note(self, ticket: OrderTicket, fills: list[BrokerFill]) -> str:
        done, share = plain(_total(fills)), f"{self._settings.paper_volume_share:.0%}"
        return f"{done} of {plain(ticket.quantity)} filled; an order takes {share} of a session's volume at most"

    def _match_legs(self, ticket: OrderTicket, account: AccountView) -> BrokerAnswer:
        """Fill all legs of an order or none, all at the rate of now."""
        opens = ticket.action in ("open", "add")
        try:
            fx = self._rates.rate_at(ticket.legs[0].contract, self._market.clock.now(), opens=opens)
        except MarketError as error:
            return _answer(ticket, "submitted", str(error), [])
        priced = self._priced(account)
        status, note, fills = match_legs(ticket, priced, self._market, self._settings, fx)
        return _answer(ticket, status, note, [rated(fill, fx) for fill in fills])

    def _shortfall(
        self, ticket: OrderTicket, taken: Decimal, fresh: Sequence[BrokerFill], account: AccountView
    ) -> str | None:
        dearest = max(fresh, key=_unit_cost)
        held, price = _held(account, ticket.traded), exact(dearest.price)
        if self._uncovers(ticket, taken, account):
            return f"{plain(taken)} {ticket.traded} sold would leave a written call without its 100 shares"
        opening = opening_part(held, ticket.side, taken)
        if not opening:
            return None
        rate = exact(dearest.rate) if dearest.rate is not None else Decimal(1)
        need = opening * (unit_exposure(ticket.traded, ticket.side, price) * rate + self._commission)
        need += sum((duties_sum(fill.duties) for fill in fresh), Decimal(0))
        free = free_cash(self._priced(account))
        if free is None:
            return "free cash is not known: a short position has no price"
        if need <= free:
            return None
        at, own = money(price, dearest.currency or account.currency), account.currency
        sums = [money(one, own, always=dearest.currency is not None) for one in (need, free)]
        return f"{plain(opening)} {ticket.traded} at {at} need {sums[0]}, {sums[1]} is free"

    def _uncovers(self, ticket: OrderTicket, taken: Decimal, account: AccountView) -> bool:
        book = held_in(ticket.symbol, account.positions)
        signed = taken if ticket.side == "buy" else -taken
        after = {**book, ticket.traded: book.get(ticket.traded, Decimal(0)) + signed}
        return cover_of(after).naked > cover_of(book).naked

    def _priced(self, account: AccountView) -> AccountView:
        """Return the view with a price on each short that it has none of, as far as the market has one."""
        if self._prices.at_open:
            return account  # the market's price is of the session's end
        with self._store.read() as session:
            adjusted = adjusted_contracts(session, self.name)
        positions = []
        for position in account.positions:
            if position.quantity < 0 and position.market_price is None and position.symbol not in adjusted:
                try:
                    price = quote_of(self._market, position.symbol).price
                except MarketError:
                    price = None
                position = position.model_copy(update={"market_price": price})
            positions.append(position)
        return account.model_copy(update={"positions": positions})


def _held(account: AccountView, traded: str) -> Decimal:
    return sum((exact(row.quantity) for row in account.positions if row.symbol == traded), Decimal(0))


def _unit_cost(fill: BrokerFill) -> Decimal:
    return exact(fill.price) * exact(fill.rate if fill.rate is not None else 1.0)


def _total(fills: list[BrokerFill]) -> Decimal:
    return sum((exact(fill.quantity) for fill in fills), Decimal(0))


def _answer(ticket: OrderTicket, status: str, message: str | None, fills: list[BrokerFill]) -> BrokerAnswer:
    return BrokerAnswer.model_validate(
        {"status": status, "broker_order_id": f"paper-{ticket.order_id}", "fills": fills, "message": message}
    )
