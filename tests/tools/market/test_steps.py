"""Price steps and lots: those of New York give what was built in before there were others."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.exchanges import EXCHANGES
from chordesk.tools.decimals import exact
from chordesk.tools.market.price_steps import (
    lot_of,
    not_openable,
    price_steps,
    stepped_price,
    stepped_quantity,
    symbol_terms,
)
from chordesk.tools.orders.stops import stop_price
from chordesk.tools.risk.amounts import within_collar
from chordesk.tools.risk.exposure import with_slippage

CENT, TICK = Decimal("0.01"), Decimal("0.0001")
SIDES = st.sampled_from(["buy", "sell"])
PRICES = st.one_of(st.floats(0.0001, 1e7), st.integers(1, 10**9).map(lambda units: units / 10_000))
# A symbol of each exchange whose steps are known.
ABROAD = [("AAPL", "XNYS"), ("7203.T", "XTKS"), ("0700.HK", "XHKG"), ("RY.TO", "XTSE"), ("TCS.NS", "XNSE"),
          ("BHP.AX", "XASX"), ("005930.KS", "XKRX"), ("600519.SS", "XSHG"), ("D05.SI", "XSES")]  # fmt: skip


def old_step(price: Decimal) -> Decimal:
    return CENT if price >= 1 else TICK


@given(price=PRICES, side=SIDES, percent=st.floats(0.1, 50))
def test_a_stop_in_new_york_is_what_it_was(price: float, side: str, percent: float) -> None:
    reference, share = exact(price), exact(percent) / 100
    at = reference * (1 - share if side == "sell" else 1 + share)
    was = max(TICK, at.quantize(old_step(at), ROUND_CEILING if side == "sell" else ROUND_FLOOR))
    found = stop_price(symbol_terms("AAPL"), percent, side, reference)
    if was < reference if side == "sell" else was > reference:
        assert str(found) == str(was)
    else:  # it would be met at once
        assert found is None or (found < reference if side == "sell" else found > reference)


@given(price=PRICES, side=SIDES, collar=st.floats(0.001, 0.5))
def test_a_limit_within_the_collar_in_new_york_is_what_it_was(price: float, side: str, collar: float) -> None:
    last, share = exact(price), exact(collar)
    edge, rounding = (last * (1 + share), ROUND_FLOOR) if side == "buy" else (last * (1 - share), ROUND_CEILING)
    cents = edge.quantize(CENT, rounding)
    inside = cents >= last if side == "buy" else 0 < cents <= last
    was = float(cents if inside else max(TICK, edge.quantize(TICK, rounding)))
    assert within_collar("AAPL", side, price, collar) == was


@given(price=PRICES, side=SIDES, points=st.floats(0, 1000))
def test_slippage_in_new_york_is_what_it_was(price: float, side: str, points: float) -> None:
    last, shift = exact(price), exact(points) / 10_000
    if side == "buy":
        was = (last * (1 + shift)).quantize(TICK, ROUND_CEILING)
    else:
        was = max(TICK, (last * (1 - shift)).quantize(TICK, ROUND_FLOOR))
    assert str(with_slippage("AAPL", last, side, points)) == str(was)


@given(units=st.floats(0, 1e9), opens=st.booleans())
def test_a_quantity_in_new_york_is_what_it_was(units: float, opens: bool) -> None:
    assert int(stepped_quantity("AAPL", exact(units), opens=opens)) == int(exact(units).to_integral_value(ROUND_FLOOR))


@given(price=PRICES, way=st.sampled_from([ROUND_FLOOR, ROUND_CEILING]), listed=st.sampled_from(ABROAD))
def test_a_stepped_price_is_a_price_of_the_exchange_on_its_side(
    price: float, way: str, listed: tuple[str, str]
) -> None:
    symbol, code = listed
    asked, (table,) = exact(price), EXCHANGES[code].steps
    found = stepped_price(symbol, asked, way)
    assert not found % table.step(found), "a multiple of the step where it lies now"
    assert found >= asked if way == ROUND_CEILING else found <= asked or found == table.rows[0][1]
    assert stepped_price(symbol, found, way) == found


@pytest.mark.parametrize(("symbol", "asked", "buys", "sells"), [("7203.T", 250, 200, 250), ("RY.TO", 7.9, 7, 7)])
def test_a_buy_is_of_lots_and_a_sale_may_be_of_the_rest(symbol: str, asked: float, buys: int, sells: int) -> None:
    assert stepped_quantity(symbol, exact(asked), opens=True) == buys
    assert stepped_quantity(symbol, exact(asked), opens=False) == sells


@pytest.mark.parametrize(
    ("symbol", "says"),
    [
        ("AZN.L", "price steps of AZN.L are not known: each listing"),
        ("2330.TW", "price steps of 2330.TW are not known: no source"),
        ("0700.HK", "lot of 0700.HK is not known"),
        ("SAP.F", "listed in Frankfurt"),
    ],
)
def test_what_has_no_known_step_or_lot_opens_nothing_and_can_be_closed(symbol: str, says: str) -> None:
    assert says in (not_openable(symbol) or "")
    assert price_steps(symbol).step(Decimal(10)) > 0
    assert lot_of(symbol) > 0
    assert not_openable("AAPL") is None
