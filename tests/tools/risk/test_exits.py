"""Exits: whatever the books and the research are, only what protects an order that reduces denies it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chordesk.models.answers import Instrument, Rating
from chordesk.models.market import Quote
from chordesk.models.orders import Cleared, DenialCode, OrderTicket, RiskContext
from chordesk.models.settings import Settings
from chordesk.models.states import TradingState
from chordesk.tools.decimals import exact
from chordesk.tools.risk.amounts import exit_terms, within_collar
from chordesk.tools.risk.codes import CODES
from chordesk.tools.risk.exposure import covers, only_reduces, opening_quantity
from chordesk.tools.risk.pre_trade import check
from tests.examples import examples
from tests.tools.risk.figures import CALL, HOUR, NOW, PUT, context, held, limits, reserve, ticket

# Long only and the mandate do not deny what is held: the first by its meaning, the second is checked at submission.
PROTECTS = {DenialCode.HALTED, DenialCode.DUPLICATE, DenialCode.MARKET_CLOSED, DenialCode.COLLAR}
TRADED = st.sampled_from(["AAA", PUT, CALL])
SIZES = st.integers(1, 40).map(float)
FIGURES = st.one_of(st.none(), st.floats(-1e5, 1e6, allow_nan=False))
TIMES = st.one_of(st.none(), st.integers(-100, 100).map(lambda hours: NOW + hours * HOUR))


@st.composite
def books(draw: st.DrawFn) -> dict[str, Any]:
    """A state of the account, its market and its research, good or bad in any respect."""
    others = st.sampled_from(["BBB", "CCC", PUT, CALL, "AAA"])
    prices = st.one_of(st.none(), st.floats(0.01, 1e4))
    rows = draw(st.lists(st.tuples(others, st.integers(-50, 50).filter(bool), prices), max_size=4))
    positions = {symbol: held(symbol, quantity, price) for symbol, quantity, price in rows}
    view = {"account": "paper", "cash": draw(st.floats(-1e6, 1e6)), "equity": draw(FIGURES)}
    reserved = draw(st.lists(st.tuples(SIZES, st.sampled_from(["buy", "sell"]), others), max_size=3))
    age = draw(st.sampled_from([0, 1, 60, 60 * 24 * 40]))
    return {
        "account": {**view, "positions": list(positions.values())},
        "reservations": [reserve(size, side, traded) for size, side, traded in reserved],
        "trading": draw(st.sampled_from(TradingState)),
        "market_open": draw(st.sampled_from([True, True, False, None])),
        "rating": draw(st.sampled_from([None, *Rating])),
        "verdict_at": draw(TIMES),
        "instrument": draw(st.sampled_from([None, *Instrument])),
        "listed": draw(st.sampled_from([True, False, None])),
        "quote": Quote(
            symbol="AAA", price=draw(st.floats(0.01, 1e4)), at=NOW - dt.timedelta(minutes=age), source="test"
        ),
        "unpriced": draw(st.sampled_from([None, "nothing known"])),
        "stated_notional": draw(st.one_of(st.none(), st.floats(1, 1e9))),
        "sectors": draw(st.dictionaries(st.sampled_from(["AAA", "BBB"]), st.sampled_from([None, "tech"]))),
        "day_opening": draw(FIGURES),
        "high_water": draw(FIGURES),
        "last_order_at": draw(TIMES),
        "recent_orders": draw(st.integers(0, 100)),
        "orders_today": draw(st.integers(0, 100)),
        "rejections": draw(st.integers(0, 10)),
        "open_order": draw(st.sampled_from([None, None, "o1"])),
        "unresolved": draw(st.sampled_from([None, "o2"])),
    }


@st.composite
def exits(draw: st.DrawFn) -> tuple[OrderTicket, RiskContext, Settings]:
    """An order that gives back at most what the books hold of it, beside them and any limits."""
    found = draw(books())
    traded, side, size = draw(TRADED), draw(st.sampled_from(["buy", "sell"])), draw(SIZES)
    sign = 1 if side == "sell" else -1
    own = sum(row.quantity for row in found["reservations"] if (row.traded, row.side) == (traded, side))
    rest = [row for row in found["account"]["positions"] if row.symbol != traded]
    found["account"]["positions"] = [*rest, held(traded, sign * (own + size + draw(st.integers(0, 3))))]
    price = draw(st.one_of(st.none(), st.floats(0.01, 1e4)))
    terms = {"order_type": "market" if price is None else "limit", "limit_price": price}
    contract = {"contract": traded, "multiplier": 100} if traded != "AAA" else {}
    action = draw(st.sampled_from(["reduce", "close"]))
    tight = {
        "max_order_notional": draw(st.sampled_from([1, 1e9])),
        "max_symbol_share": draw(st.sampled_from([0, 1])),
        "max_sector_share": draw(st.sampled_from([0, 0.5, 1])),
        "stock_only": draw(st.booleans()),
        "options_mode": draw(st.sampled_from(["stocks-only", "options-only", "both"])),
        "allow_short": draw(st.booleans()),
    }
    order = ticket(action=action, side=side, quantity=size, **terms, **contract)
    return order, context(**found), limits(**tight)


def uncovers(order: OrderTicket, around: RiskContext) -> bool:
    before, after = covers(order, around)
    return after.needs_more_than(before)


@settings(max_examples=examples(500), deadline=None)
@given(case=exits())
def test_an_order_that_takes_the_cover_from_a_written_option_opens(
    case: tuple[OrderTicket, RiskContext, Settings],
) -> None:
    order, around, bounds = case
    if uncovers(order, around):
        assert not only_reduces(order, around)
    if uncovers(order, around) and order.contract is None:
        assert not isinstance(check(order, around, bounds.model_copy(update={"allow_short": True})), Cleared)


@pytest.mark.long
@settings(max_examples=examples(1_000), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(case=exits())
def test_no_rule_made_for_entries_denies_an_order_that_only_reduces(
    case: tuple[OrderTicket, RiskContext, Settings],
) -> None:
    order, around, bounds = case
    assume(not uncovers(order, around))
    assert only_reduces(order, around)
    found = check(order, around, bounds)
    assert isinstance(found, Cleared) or found.code in PROTECTS, found
    assert isinstance(found, Cleared) or CODES[found.code].exits


@settings(max_examples=examples(300), deadline=None)
@given(case=exits(), more=st.integers(4, 20))
def test_an_order_that_crosses_through_zero_opens(case: tuple[OrderTicket, RiskContext, Settings], more: int) -> None:
    order, around, _ = case
    across = order.model_copy(update={"quantity": order.quantity + more})
    assert not only_reduces(across, around)
    assert opening_quantity(across, around) > 0


@settings(max_examples=examples(500), deadline=None)
@given(case=exits())
def test_a_market_order_to_exit_at_an_old_price_gets_a_limit_within_its_collar(
    case: tuple[OrderTicket, RiskContext, Settings],
) -> None:
    order, around, bounds = case
    sent, why = exit_terms(order, around, bounds)
    if sent == order:
        assert why is None
        return
    assert order.order_type == "market"
    assert sent.order_type == "limit"
    assert str(around.quote.symbol) in (why or "")
    assert getattr(check(sent, around, bounds), "code", None) != DenialCode.COLLAR


@given(
    side=st.sampled_from(["buy", "sell"]), price=st.floats(0.001, 1e5), collar=st.sampled_from([0.001, 0.01, 0.05, 0.2])
)
def test_a_limit_lies_within_the_collar_on_the_side_where_it_fills(side: str, price: float, collar: float) -> None:
    limit, last = exact(within_collar("AAA", side, price, collar)), exact(price)
    room = max(exact(collar) * last, exact(0.0001))
    assert abs(limit - last) <= room
    assert (limit >= last - exact(0.0001)) if side == "buy" else (limit <= last + exact(0.0001))


@pytest.mark.parametrize(
    ("side", "price", "limit"), [("sell", 27.55, 26.18), ("buy", 27.55, 28.92), ("sell", 0.03, 0.03)]
)
def test_a_limit_is_in_whole_cents_where_the_collar_has_one(side: str, price: float, limit: float) -> None:
    assert within_collar("AAA", side, price, 0.05) == limit


def test_an_opening_order_keeps_its_terms() -> None:
    stale = context(quote=Quote(symbol="AAA", price=100.0, at=NOW - HOUR, source="test"))
    assert exit_terms(ticket(), stale, limits()) == (ticket(), None)
