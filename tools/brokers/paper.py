"""The paper broker and its own books: fills at the market's own prices, with slippage, commission and the session's
volume."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal

from sqlalchemy import bindparam, func
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_code, of_place
from chordesk.models.market import OptionContract, legs_of, multiplier_of, parse_contract
from chordesk.models.money import FxRate, Money
from chordesk.models.order_terms import follows_dividends
from chordesk.models.orders import (
    AccountFill,
    AccountView,
    BrokerAnswer,
    BrokerFill,
    BrokerOrder,
    BrokerPosition,
    BrokerState,
    OrderTicket,
    Settlement,
)
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import PAPER
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import BookedSettlement, Fill, Order, Preview
from chordesk.models.text import NEW_YORK
from chordesk.tools.books import ROWS_A_MARK, Books, books_of, duties_sum, keep_marks
from chordesk.tools.brokers.early_exercise import exercised_now
from chordesk.tools.brokers.paper_matching import Matches, PaperPrices, match_legs
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import (
    RENAMED,
    account_money,
    adjusted_contracts,
    bought_on,
    fill_of,
    filled_quantities,
    not_standard,
)
from chordesk.tools.market.actions import cash_growth, contract_after
from chordesk.tools.market.clock import at_exchange, day_of, hours_of, usual_close
from chordesk.tools.market.fx import kind_of, last_known, listed_in, rate_into
from chordesk.tools.market.prices import (
    actions_of,
    named_on,
    names_of,
    quote_of,
    renamed,
    splits_since,
    traded_bars,
    vanished,
)
from chordesk.tools.market.protocol import Action, FillSource, MarketData, RecordedSessions
from chordesk.tools.rates import cost_rate, duties_of, exit_rate, rate_fields
from chordesk.tools.risk.exposure import (
    cover_of,
    free_cash,
    held_in,
    opening_part,
    started,
    underlying_of,
    unit_exposure,
)

_SESSIONS_BACK = 30


def settlements(
    books: Books, market: MarketData, delisted_pays: float, adjusted: Mapping[str, dt.date]
) -> list[Settlement]:
    """Return the settlements of contracts past their expiry, and of shares that are traded no more at that fraction of
    their last close. A contract without a known close of its underlying waits.

    A written put that ends in the money is assigned: its shares are bought at the strike. A bought contract that ends
    in the money is closed at what it is worth, as brokers that sell out before the exercise do. adjusted: contracts
    that deliver what 100 shares of before that day have become.
    """
    found: list[Settlement] = []
    for symbol, (held, _) in sorted(books.held.items()):
        contract = parse_contract(symbol)
        if contract is None:
            found += _delisted(symbol, held, market, exact(delisted_pays))
            continue
        if market.clock.now().date() <= contract.expiry:
            continue
        close = _close_at(contract, market)
        if close is not None:
            found += _ended(contract, held, *close, _delivered(contract, adjusted.get(symbol), market))
    return found


def _delisted(symbol: str, held: Decimal, market: MarketData, pays: Decimal) -> list[Settlement]:
    if (gone := vanished(market, symbol)) is None:
        return []
    last, close = gone
    amounts = {"quantity": float(-held), "price": float(exact(close) * pays), "at": market.clock.now()}
    return [Settlement.model_validate({"id": f"{symbol}/{last}", "kind": "delisted", "symbol": symbol, **amounts})]


def _close_at(contract: OptionContract, market: MarketData) -> tuple[Decimal, dt.datetime] | None:
    """Return the underlying's close on the expiry's session, if the bars at hand have it: the session of that day, or
    the last one before a day without."""
    try:
        bars = traded_bars(market, contract.underlying, _SESSIONS_BACK)
        session = hours_of(contract.underlying).last_closed(dt.datetime.combine(contract.expiry, dt.time.max, NEW_YORK))
    except MarketError:
        return None
    closes = dict(zip(bars.dates, bars.close, strict=True))
    if session not in closes:
        return None
    at = usual_close(contract.expiry, HOME)
    return exact(float(closes[session])) * exact(splits_since(market, contract.underlying, session)), at


def _delivered(contract: OptionContract, split_on: dt.date | None, market: MarketData) -> Decimal:
    """Return the shares that a contract delivers for one of the 100 that it was made for."""
    if split_on is None:
        return Decimal(1)
    before, after = split_on - dt.timedelta(days=1), contract.expiry
    grown = [splits_since(market, contract.underlying, day) for day in (before, after)]
    return exact(grown[0]) / exact(grown[1])


def _ended(
    contract: OptionContract, held: Decimal, close: Decimal, at: dt.datetime, delivered: Decimal
) -> list[Settlement]:
    worth = (delivered * close - contract.strike) * (1 if contract.kind == "call" else -1)

    def leg(kind: str, symbol: str, quantity: Decimal, price: Decimal) -> Settlement:
        amounts = {"quantity": float(quantity), "price": float(price)}
        what = f"{symbol}/fraction" if kind == "fraction" else symbol
        names = {"id": f"{contract.symbol}/{what}", "kind": kind, "symbol": symbol}
        return Settlement.model_validate({**names, **amounts, "at": at})

    if worth <= 0:
        return [leg("expired", contract.symbol, -held, Decimal(0))]
    if held > 0:
        return [leg("exercised", contract.symbol, -held, worth)]
    shares = -held * exact(multiplier_of(contract.symbol)) * delivered * (1 if contract.kind == "put" else -1)
    whole, strike = shares.to_integral_value(ROUND_DOWN), contract.strike / delivered
    legs = [
        leg("assigned", contract.symbol, -held, Decimal(0)),
        leg("delivered", contract.underlying, whole, strike),
    ]
    if fraction := abs(shares - whole):
        legs.append(leg("fraction", contract.underlying, -fraction, abs(strike - close)))
    return legs


def changes(
    symbol: str, held: Decimal, cost: Decimal, action: Action, market: MarketData, adjusted: bool
) -> Iterator[Settlement]:
    """Yield what an action does to a position as it was the evening before. A dividend is cash, paid by who is short. A
    split changes whole shares and pays a fraction at the last close. Without a holding both are yielded for waiting
    orders. Contracts follow as `contract_after` says; what it has no contract for is adjusted."""

    def leg(kind: str, quantity: Decimal, price: Decimal, named: str = symbol, **terms: float) -> Settlement:
        facts = {"id": f"{named}/{action.day}/{kind}", "kind": kind, "symbol": named, **terms}
        amounts = {"quantity": float(quantity), "price": float(price)}
        return Settlement.model_validate({**facts, **amounts, "at": hours_of(symbol).open_of(action.day)})

    contract, ratio = parse_contract(symbol), exact(action.split)
    if contract is not None:
        after = contract_after(contract, action)
        if not held or adjusted or after == contract:
            return
        if after is None:
            yield leg("adjusted", Decimal(0), Decimal(0))
        else:
            yield leg("converted", -held, cost)
            yield leg("converted", held * ratio, cost / ratio, after.symbol)
        return
    if action.dividend:
        yield leg("dividend", held, exact(action.dividend), growth=cash_growth(action))
    if action.spun:
        yield leg("split", Decimal(0), Decimal(0), growth=cash_growth(action))
        yield from _spun_off(symbol, held, action, market)
    if ratio != 1:
        whole = (held * ratio).to_integral_value(ROUND_DOWN)
        yield leg("split", whole - held, Decimal(0), ratio=action.split, growth=action.split)
        if (fraction := held * ratio - whole) and (close := _close_before(symbol, action, market)) is not None:
            yield leg("fraction", fraction, close)


def _spun_off(symbol: str, held: Decimal, action: Action, market: MarketData) -> Iterator[Settlement]:
    """Yield the whole shares of another company that came with those held, without a cost of their own, and the cash
    for a fraction: at what the parent's price lost for one of them."""
    came = held * exact(action.spun_shares)
    whole = came.to_integral_value(ROUND_DOWN)
    at, named = hours_of(symbol).open_of(action.day), f"{action.spun}/{action.day}/spun-off/{symbol}"
    amounts = {"kind": "split", "symbol": action.spun, "quantity": float(whole), "price": 0.0, "at": at}
    if whole:
        yield Settlement.model_validate({**amounts, "id": named})
    close = _close_before(symbol, action, market)
    if (fraction := came - whole) and close is not None:
        lost = close * exact(action.split) * (1 - 1 / exact(cash_growth(action))) / exact(action.spun_shares)
        paid = {"kind": "fraction", "quantity": float(fraction), "price": float(lost)}
        yield Settlement.model_validate({**amounts, **paid, "id": f"{named}/fraction"})


def _close_before(symbol: str, action: Action, market: MarketData) -> Decimal | None:
    """Return the last close before an action, for a share after it and without the cash: its own, and what was paid on
    days since that close that had no trade."""
    bars = traded_bars(market, symbol, (market.clock.session() - action.day).days + _SESSIONS_BACK)
    before = [place for place, day in enumerate(bars.dates) if day < action.day]
    if not before:
        return None
    last = bars.dates[before[-1]]
    close = exact(float(bars.close[before[-1]])) * exact(splits_since(market, symbol, last))
    for each in actions_of(market, symbol, last):
        if each.spun and each.day < action.day:
            close /= exact(each.growth)
        elif each.day <= action.day:
            close = (close - exact(each.dividend)) / exact(each.split)
    return max(close, Decimal(0))


_RESTING = (OrderState.SUBMITTED.value, OrderState.PARTIALLY_FILLED.value)
_ACTIONS_BACK = 366  # days: a desk may have been down for long


_FILLS = select(Fill).where(col(Fill.order_id) == bindparam("order")).order_by(col(Fill.created_at), col(Fill.id))


def fills_of(session: Session, ticket: OrderTicket) -> list[BrokerFill]:
    names = ("symbol", "side") if ticket.legs else ()
    rows = session.exec(_FILLS, params={"order": str(ticket.order_id)})
    return [
        fill_of(row).model_copy(update={"id": None, **{name: getattr(row, name) for name in names}}) for row in rows
    ]


def resting(session: Session, account: str) -> list[BrokerOrder]:
    rows = session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(_RESTING))).all()
    filled = filled_quantities(session, [order.id for order in rows])
    return [_open_order(order, filled[order.id]) for order in rows]


def _open_order(order: Order, filled: Decimal) -> BrokerOrder:
    ids = {"client_id": order.id, "broker_order_id": order.broker_order_id or f"paper-{order.id}"}
    whole = sum(leg.ratio for leg in legs_of(order.legs)) or 1
    quantity = float(exact(order.quantity or 0) * whole)
    traded = {"symbol": order.contract or order.symbol, "side": order.side, "quantity": quantity}
    return BrokerOrder.model_validate({**ids, **traded, "filled": float(filled)})


def recent_fills(session: Session, account: str, since: dt.datetime) -> list[AccountFill]:
    rows = session.exec(
        select(Fill, Order)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(col(Fill.account) == account, col(Fill.filled_at) >= since)
    ).all()
    return [_account_fill(fill, order) for fill, order in rows]


def _account_fill(fill: Fill, order: Order) -> AccountFill:
    booked = fill_of(fill)
    ids = {"client_id": order.id, "broker_order_id": order.broker_order_id or f"paper-{order.id}"}
    return AccountFill.model_validate({**ids, "symbol": fill.symbol, "side": fill.side, "fill": booked})


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
            currency = account_money(session, self._settings, self.name).base
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
        for leg in (ended := list(self._rated_legs(over, books))):
            books.settle(leg)
        return BrokerState(
            account=self.name,
            cash=float(books.cash),
            equity=None,
            currency=currency,
            positions=[_position(books, name) for name in sorted(books.held)],
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
        legs = (leg for contract, held, close in found for leg in _ended(contract, held, close, now, Decimal(1)))
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
                        legs = self._rated_legs(due_legs, books)
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
            for leg in self._rated_legs(legs, books):
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
        which = col(Order.account) == self.name, col(Order.state).in_(_RESTING)
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
                rates = [self._rate_at(ticket.traded, fill.at, opens=opens) for fill in fresh]
            except MarketError as error:
                waiting = "partially_filled" if booked else "submitted"
                return _answer(ticket, found.ends or waiting, str(error), booked)
            fresh = self._taxed(ticket, booked, [_rated(*each) for each in zip(fresh, rates, strict=True)], rates)
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
            fx = self._rate_at(ticket.legs[0].contract, self._market.clock.now(), opens=opens)
        except MarketError as error:
            return _answer(ticket, "submitted", str(error), [])
        priced = self._priced(account)
        status, note, fills = match_legs(ticket, priced, self._market, self._settings, fx)
        return _answer(ticket, status, note, [_rated(fill, fx) for fill in fills])

    def _rate_at(self, traded: str, at: dt.datetime, *, opens: bool) -> FxRate | None:
        """Return the rate of the currency of what is traded, None where it is the account's. What gives a position back
        takes the newest, however old, else that of its cost. Raises MarketError where there is none."""
        money, currency = self._money(), listed_in(self._market, traded)
        if currency == money.base:
            return None
        try:
            return rate_into(self._market, currency, money, at)
        except MarketError:
            old = None if opens else self._old_rate(currency, money, traded, at)
            if old is None:
                raise
            return old

    def _money(self) -> Money:
        with self._store.read() as session:
            return account_money(session, self._settings, self.name)

    def _old_rate(self, currency: str, money: Money, traded: str, at: dt.datetime) -> FxRate | None:
        if (newest := last_known(self._market, currency, money, at)) is not None:
            return newest
        with self._store.read() as session:
            return exit_rate(session, self.name, traded, money.base)

    def _rated_legs(self, legs: Iterable[Settlement], books: Books) -> Iterator[Settlement]:
        """Yield legs with the rate of their currency at their time, where that is not the account's; one without any
        rate waits. What only gets another name keeps the rate that it was bought at, so that no cash moves."""
        money, kept = self._money(), None
        for leg in legs:
            currency = listed_in(self._market, leg.symbol)
            if currency == money.base:
                yield leg
                continue
            base = books.bases.get(leg.symbol)
            if leg.kind == "converted":
                if base is not None:
                    kept = cost_rate(currency, money.base, books.held[leg.symbol][1], base.rate, leg.at)
                fx = kept
            else:
                try:
                    fx = rate_into(self._market, currency, money, leg.at)
                except MarketError:
                    fx = self._old_rate(currency, money, leg.symbol, leg.at)
            if fx is not None:
                yield leg.model_copy(update=rate_fields(fx))

    def _taxed(
        self,
        ticket: OrderTicket,
        booked: Sequence[BrokerFill],
        fresh: Sequence[BrokerFill],
        rates: Sequence[FxRate | None],
    ) -> list[BrokerFill]:
        """Return the fills of an order with their duties; contracts have none here."""
        if ticket.contract is not None:
            return list(fresh)
        kind, moved, found = kind_of(self._market, ticket.symbol), _moved(booked), []
        for fill, fx in zip(fresh, rates, strict=True):
            after = moved + _moved([fill])
            duties = duties_of(ticket.symbol, kind, ticket.side, moved, after, fx)
            found.append(fill.model_copy(update={"duties": duties}) if duties else fill)
            moved = after
        return found

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
        at = money(price) if dearest.currency is None else f"{dearest.currency} {money(price)}"
        return f"{plain(opening)} {ticket.traded} at {at} need {money(need)}, {money(free)} is free"

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


def _position(books: Books, symbol: str) -> BrokerPosition:
    (held, cost), base = books.held[symbol], books.bases.get(symbol)
    of_base = {"currency": base.currency, "cost_base": float(base.rate)} if base is not None else {}
    return BrokerPosition.model_validate(
        {"symbol": symbol, "quantity": float(held), "average_cost": float(cost), **of_base}
    )


def _held(account: AccountView, traded: str) -> Decimal:
    return sum((exact(row.quantity) for row in account.positions if row.symbol == traded), Decimal(0))


def _rated(fill: BrokerFill, fx: FxRate | None) -> BrokerFill:
    return fill if fx is None else fill.model_copy(update=rate_fields(fx))


def _moved(fills: Iterable[BrokerFill]) -> Decimal:
    return sum((exact(fill.quantity) * exact(fill.price) for fill in fills), Decimal(0))


def _unit_cost(fill: BrokerFill) -> Decimal:
    return exact(fill.price) * exact(fill.rate if fill.rate is not None else 1.0)


def _total(fills: list[BrokerFill]) -> Decimal:
    return sum((exact(fill.quantity) for fill in fills), Decimal(0))


def _answer(ticket: OrderTicket, status: str, message: str | None, fills: list[BrokerFill]) -> BrokerAnswer:
    return BrokerAnswer.model_validate(
        {"status": status, "broker_order_id": f"paper-{ticket.order_id}", "fills": fills, "message": message}
    )
