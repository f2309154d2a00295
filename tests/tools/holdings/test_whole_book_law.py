"""The law of the whole book at the preview and at the send of orders: no outside holding lets an order pass that the
account's own limits deny, none makes it larger, and what passes is what a sum by hand allows.

Books change between the two: a file arrives, another takes its place, the accounts are forgotten."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from sqlalchemy import text

from chordesk.models.market import Listing
from chordesk.models.orders import DenialCode
from chordesk.models.statements import Holding, Read, Statement
from chordesk.models.states import OrderState
from chordesk.tools.holdings.keeping import forget, keep, names, plans
from chordesk.tools.holdings.order_rule import CODE
from tests.examples import FIXED_SEED, examples
from tests.tools.orders.conftest import new_desk  # noqa: F401
from tests.tools.orders.desk import Desk, Outcome, action, denied
from tests.tools.orders.tape import Tape

WHOLE = DenialCode(CODE)
PRICES = {"AAA": 100.0, "BBB": 50.0, "CCC": 20.0, "DDD": 10.0}
SECTORS = {"AAA": "tools", "BBB": "tools", "CCC": "food", "DDD": None}
DAY = dt.date(2010, 8, 11)
# Of the account's own limits the shares of a symbol and a sector alone are met.
WIDE = {
    "max_order_notional": 1e9, "max_symbol_notional": 1e9, "max_gross_notional": 1e9, "max_orders_per_minute": 10**6,
    "max_trades_per_day": 10**6, "max_consecutive_rejections": 10**6, "max_drawdown": 1.0, "max_daily_loss": 1.0,
    "commission_per_share": 0,
}  # fmt: skip


@dataclass
class Sectors(Tape):
    prices: dict[str, float] = field(default_factory=lambda: dict(PRICES))

    def listing(self, symbol: str) -> Listing:
        return Listing(symbol=symbol, sector=SECTORS.get(symbol))


Book = list[list[Holding]]  # of each account


def a_book(draw: random.Random) -> Book:
    return [[_row(draw, at) for at in range(draw.randint(1, 4))] for _ in range(draw.randint(0, 3))]


def _row(draw: random.Random, line: int) -> Holding:
    """A share with or without a ticker or a value, short at times, or cash, at times owed."""
    currency, rate = draw.choice([("USD", Decimal(1))] * 6 + [("EUR", Decimal("1.25"))] + [("KWD", None)])
    money = Decimal(draw.choice([100, 5_000, 20_000, 90_000, 400_000]))
    sign = draw.choice([1, 1, 1, 1, -1])
    if draw.random() < 0.3:
        return Holding(line, "Cash", "cash", sign * money, currency, value=sign * money, rate=rate)
    symbol = draw.choice([*PRICES, None])
    quantity = sign * money / 10
    return Holding(line, symbol or "A fund", "share", quantity, currency, symbol, None, Decimal(10), rate=rate)


def put(desk: Desk, book: Book, digest: str) -> None:
    """Let these accounts be all that is held outside."""
    with desk.store.session() as session:
        forget(session, names(session))
        for at, rows in enumerate(book):
            read = Read("plain", "plain", f"{digest}/{at}", (Statement("", tuple(rows), DAY),))
            keep(session, read, plans(session, read, f"account {at}", "paper"))


def by_hand(desk: Desk, book: Book, symbol: str, quantity: int, limits: Mapping[str, float]) -> bool:
    """Whether own and outside holdings together have room for a purchase."""
    rows = [row for one in book for row in one]
    values = [None if row.rate is None else row.rate * (row.value or row.quantity * 10) for row in rows]
    if any(value is None and row.quantity < 0 for row, value in zip(rows, values, strict=True)):
        return False
    held = {name: Decimal(str(count * PRICES[name])) for name, count in desk.positions().items()}
    whole = Decimal(str(desk.cash())) + sum(held.values())
    held[symbol] = held.get(symbol, Decimal(0)) + Decimal(str(quantity * PRICES[symbol]))
    for row, value in zip(rows, values, strict=True):
        if value is None and row.symbol is not None:
            alike = SECTORS[row.symbol] in (SECTORS[symbol], None)
            if row.symbol == symbol or (alike and limits["max_sector_share"] < 1):
                return False
        if value is not None and (row.symbol is not None or row.kind == "cash" or value < 0):
            whole += value
        if value is not None and row.symbol is not None:
            held[row.symbol] = held.get(row.symbol, Decimal(0)) + abs(value)
    if whole <= 0 or held[symbol] > Decimal(str(limits["max_symbol_share"])) * whole:
        return False
    if limits["max_sector_share"] == 1:
        return True
    known = [SECTORS[symbol]] if SECTORS[symbol] else [one for one in set(SECTORS.values()) if one]
    most = Decimal(str(limits["max_sector_share"])) * whole
    return all(sum(held[name] for name in held if SECTORS[name] in (one, None)) <= most for one in known)


def one_of(desk: Desk, outcomes: list[Outcome], may: bool, own: bool, passed: OrderState) -> bool:
    (found,) = outcomes
    if not own:
        assert found.denied is not None
        assert found.denied.code in (DenialCode.SHARE_PER_SYMBOL, DenialCode.SHARE_PER_SECTOR), found
    elif not may:
        assert "outside" in denied(found, WHOLE) or "whole book" in denied(found, WHOLE)
    else:
        assert found.state == passed, found
    return own and may


def test_the_law_over_random_books_that_change_on_the_way(new_desk: Callable[..., Desk]) -> None:  # noqa: F811
    draw = random.Random(FIXED_SEED)
    desk, seen = new_desk(Sectors(), **WIDE), []
    desk.hold("AAA", 10, PRICES["AAA"])
    for case in range(examples(8)):
        before, after = a_book(draw), a_book(draw)
        symbol, quantity = draw.choice(list(PRICES)), draw.choice([1, 20, 100, 300])
        limits = {"max_symbol_share": draw.choice([0.1, 0.5, 1.0]), "max_sector_share": draw.choice([0.3, 1.0])}
        own = by_hand(desk, [], symbol, quantity, limits)
        may = [by_hand(desk, one, symbol, quantity, limits) for one in (before, after)]
        kind = "add" if symbol in desk.positions() else "open"
        decision = desk.decide(action(symbol, kind, quantity=quantity))
        put(desk, before, f"{case}/1")
        previewed = desk.process(decision, trader_live=False, **limits)
        if one_of(desk, previewed, may[0], own, OrderState.PREVIEWED):
            put(desk, after, f"{case}/2")
            sent = desk.process(decision, **limits)
            if one_of(desk, sent, may[1], own, OrderState.FILLED):
                assert [sum(one.quantity for one in each.fills) for each in sent] == [quantity]
            seen.append(may[1])
        for name, held in [] if draw.random() < 0.6 else desk.positions().items():
            closed = desk.run(action(name, "close", quantity=held))[0]
            assert closed.state == OrderState.FILLED, "an exit is never in the way"
    assert {True, False} <= set(seen) or len(seen) < 20


DAMAGES = [
    "UPDATE holdings_position SET quantity = 'many'",
    "UPDATE holdings_position SET value = '1000000'",
    "UPDATE holdings_position SET kind = 'cash'",
    "DELETE FROM holdings_position WHERE line = 1",
    "DELETE FROM holdings_position",
    "DELETE FROM holdings_position; DELETE FROM holdings_snapshot",
    "UPDATE holdings_snapshot SET as_of = '2030-01-01'",
    # A snapshot of before there was a seal has its figures and its day alone to judge by.
    "UPDATE holdings_snapshot SET seal = NULL; UPDATE holdings_position SET quantity = 'Infinity'",
    "UPDATE holdings_snapshot SET seal = NULL; UPDATE holdings_position SET value = 'NaN'",
    "UPDATE holdings_snapshot SET seal = NULL; UPDATE holdings_position SET value = '1e400'",
    "UPDATE holdings_snapshot SET seal = NULL; UPDATE holdings_position SET kind = 'gift'",
    "UPDATE holdings_snapshot SET seal = NULL; DELETE FROM holdings_position",
    "UPDATE holdings_snapshot SET seal = NULL, as_of = '2099-01-01'",
]


def test_a_book_that_cannot_be_read_denies_what_opens_and_says_so(new_desk: Callable[..., Desk]) -> None:  # noqa: F811
    desk = new_desk(Sectors(), **WIDE)
    desk.hold("AAA", 10, 100.0)
    cash = Holding(1, "Cash", "cash", Decimal(100), "USD", value=Decimal(100), rate=Decimal(1))
    share = Holding(2, "BBB", "share", Decimal(10), "USD", "BBB", None, Decimal(10), rate=Decimal(1))
    for damage in DAMAGES:
        put(desk, [[cash, share]], damage)
        with desk.store.session() as session:
            for statement in damage.split("; "):
                session.connection().execute(text(statement))
        opened = desk.run(action("BBB"))[0]
        assert "an outside account is damaged (`desk holdings forget ACCOUNT`" in denied(opened, WHOLE), damage
    assert desk.run(action("AAA", "close"))[0].state == OrderState.FILLED
    put(desk, [], "last")
    assert desk.run(action("BBB"))[0].state == OrderState.FILLED, "what was forgotten bounds nothing"
