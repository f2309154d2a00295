"""Holdings by the symbol that research is about; an unknown figure has its reason."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.models.market import Quote
from chordesk.models.tables.orders import Account, Position
from chordesk.tools.portfolio.holdings import NO_COST, Holding, free_shares, holdings, written_contracts
from chordesk.tools.registry import ToolContext
from tests.tools.conftest import MakeContext
from tests.tools.orders.tape import Tape

PUT = "AAA101218P00090000"
BEFORE = dt.datetime(2010, 8, 9, 13, 30, tzinfo=dt.UTC)


@dataclasses.dataclass
class OptionTape(Tape):
    """Quotes contracts too."""

    def option_quote(self, contract: str) -> Quote:
        return self.quote(contract)


Hold = Callable[..., ToolContext]


@pytest.fixture
def hold(store: Store, make_context: MakeContext) -> Hold:
    """An account with (symbol, quantity, average cost) on a market with these prices."""

    def hold(*rows: tuple[str, float, float], prices: dict[str, float], account: str = "paper") -> ToolContext:
        with store.session() as session:
            session.add(Account(name=account, cash=1000.0))
            session.flush()
            session.add_all(
                Position(account=account, symbol=symbol, quantity=quantity, average_cost=cost, filled_at=BEFORE)
                for symbol, quantity, cost in rows
            )
        return make_context(OptionTape(prices), store)

    return hold


def test_price_and_gain_by_symbol(hold: Hold) -> None:
    context = hold(("BBB", -10, 50.0), ("AAA", 10, 80.0), prices={"AAA": 100.0, "BBB": 45.0})
    long, short = Holding("AAA", ("AAA",), 100.0, 0.25), Holding("BBB", ("BBB",), 45.0, pytest.approx(0.1))
    assert holdings(context) == [long, short]
    assert holdings(context, only="BBB") == [short]
    assert holdings(context, only="CCC") == []


def test_shares_and_contracts_on_them_are_one_holding(hold: Hold) -> None:
    """100 shares gained 1,000; two puts that were sold for 3.00 and cost 2.00 now gained 200."""
    context = hold(("AAA", 100, 90.0), (PUT, -2, 3.0), prices={"AAA": 100.0, PUT: 2.0})
    (found,) = holdings(context)
    assert found == Holding("AAA", ("AAA", PUT), 100.0, pytest.approx(1200 / 9600))


def test_of_contracts_alone_the_price_is_the_share_s(hold: Hold) -> None:
    context = hold((PUT, 1, 2.0), prices={"AAA": 100.0, PUT: 3.0})
    assert holdings(context) == [Holding("AAA", (PUT,), 100.0, 0.5)]
    assert holdings(context, only=PUT) == []


UNKNOWN = "unknown symbol AAA"
NO_PRICE = f"price: {UNKNOWN}"


@pytest.mark.parametrize(
    ("rows", "prices", "expected"),
    [
        (
            [("AAA", 1, 5.0), (PUT, 1, 2.0)],
            {PUT: 3.0},
            (None, None, f"price: {UNKNOWN}", f"AAA has no price: {UNKNOWN}"),
        ),
        ([("AAA", 1, 5.0), (PUT, 1, 2.0)], {"AAA": 6.0}, (6.0, None, f"{PUT} has no price: unknown symbol {PUT}")),
        ([(PUT, 1, 2.0)], {PUT: 3.0}, (None, 0.5, NO_PRICE)),
        ([("AAA", 5, 0.0)], {"AAA": 6.0}, (6.0, None, NO_COST)),
    ],
)
def test_a_figure_that_is_missing_has_its_reason(
    hold: Hold, rows: list[tuple[str, float, float]], prices: dict[str, float], expected: tuple[Any, ...]
) -> None:
    (found,) = holdings(hold(*rows, prices=prices), only="AAA")
    price, gain, *missing = expected
    assert (found.price, found.unrealized) == (price, gain)
    assert list(found.missing) == [why if why.startswith("price") else f"unrealized: {why}" for why in missing]


def test_a_price_of_an_earlier_session_is_not_known(hold: Hold) -> None:
    """It would show a holding that did not move."""
    put = PUT.replace("AAA", "BBB")
    context = hold(("AAA", 1, 5.0), (put, 1, 2.0), prices={"AAA": 6.0, "BBB": 100.0, put: 3.0})
    assert isinstance(context.market, Tape)
    context.market.quoted_at = context.clock.now() - dt.timedelta(days=1)
    reason = "no bar of 2010-08-12, the market's latest session; the last is of 2010-08-11"
    (found,) = holdings(context, only="AAA")
    assert (found.price, found.unrealized) == (None, None)
    assert found.missing == (f"price: {reason}", f"unrealized: AAA has no price: {reason}")
    (option,) = holdings(context, only="BBB")
    assert (option.price, option.unrealized, len(option.missing)) == (None, None, 2)


@pytest.mark.parametrize(
    ("rows", "free"),
    [
        ((), 0.0),
        ((("AAA", 250.0, 10.0),), 250.0),
        ((("AAA", 250.0, 10.0), ("AAA101218C00110000", -2.0, 1.0)), 50.0),
        ((("AAA", 250.0, 10.0), (PUT, -2.0, 1.0)), 250.0),
        ((("AAA", -50.0, 10.0),), 0.0),
        ((("BBB", 100.0, 10.0), ("AAA101218C00110000", -1.0, 1.0)), 0.0),
    ],
)
def test_shares_that_cover_a_written_call_are_not_free(
    hold: Hold, rows: tuple[tuple[str, float, float], ...], free: float
) -> None:
    context = hold(*rows, prices={})
    with context.store.read() as session:
        assert free_shares(session, "paper", "AAA") == free
        assert free_shares(session, "other", "AAA") == 0.0


def test_written_contracts_are_counted_and_shares_and_bought_ones_are_not(hold: Hold) -> None:
    put, call, bought = "AAA101218P00090000", "AAA101218C00090000", "AAA101218C00095000"
    other = "BBB101218P00090000"
    rows = (("AAA", -50.0, 80.0), (put, -2.0, 1.0), (call, -1.0, 1.0), (bought, 3.0, 1.0), (other, -4.0, 1.0))
    with hold(*rows, ("BRKB101218C00090000", -5.0, 1.0), prices={}).store.read() as session:
        assert written_contracts(session, "paper", "AAA") == 3.0
        assert written_contracts(session, "paper", "BRK.B") == 5.0
        assert written_contracts(session, "paper", "CCC") == written_contracts(session, "other", "AAA") == 0.0
