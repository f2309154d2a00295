"""Fills against values computed by hand, and what must hold for any stake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.event_positions import best_price, fill_of
from chordesk.tools.venues.markets import FeeTerms, Side
from tests.tools.event_positions.markets import book_of, market_of, pool_market

BOOK = book_of([(0.38, 100)], [(0.40, 50), (0.45, 1000)])


def test_a_stake_buys_whole_contracts_through_the_book() -> None:
    """50 at 0.40 + 0.0168 cost 20.84, and 29.16 left buy 62 at 0.45 + .017325: 20 + 27.9 + 0.84 + 1.08 (1.074) =
    49.82, and one more would cost 0.45 + fee beyond 50."""
    fill = fill_of(market_of(), BOOK, "yes", 50)
    assert fill is not None
    assert fill.shares == 112
    assert fill.fee == pytest.approx(1.92)
    assert fill.cost == pytest.approx(49.82)
    assert fill.price == pytest.approx(47.9 / 112)


def test_no_is_bought_against_the_bids() -> None:
    """NO costs 1 - 0.38 = 0.62; 10 contracts 6.20 and a fee of 0.17 (0.16492)."""
    fill = fill_of(market_of(), BOOK, "no", 6.40)
    assert fill is not None
    assert (fill.shares, fill.cost) == (10, pytest.approx(6.37))


def test_a_book_that_is_bought_up_ends_the_fill() -> None:
    fill = fill_of(market_of(), book_of([], [(0.40, 5)]), "yes", 50)
    assert fill is not None
    assert (fill.shares, fill.cost) == (5, pytest.approx(2.09))


def test_parts_of_shares_are_bought_where_there_are_such() -> None:
    """At 0.40 + 0.04 * 0.24 = 0.4096, 10 buy 24.414, of which 24.41."""
    fill = fill_of(market_of(fee=FeeTerms(0.04)), BOOK, "yes", 10)
    assert fill is not None
    assert (fill.shares, fill.cost) == (24.41, pytest.approx(24.41 * 0.4096))


def test_a_pool_sells_by_its_own_formula() -> None:
    """100 into an even pool of 100 buy 150 shares."""
    fill = fill_of(pool_market(100, 100), None, "yes", 100)
    assert fill is not None
    assert (fill.shares, fill.cost, fill.effective) == (pytest.approx(150), pytest.approx(100), pytest.approx(2 / 3))


@pytest.mark.parametrize("stake", [0, -5, 0.3])
def test_too_little_buys_nothing(stake: float) -> None:
    assert fill_of(market_of(), BOOK, "yes", stake) is None


def test_without_offers_or_a_known_fee_nothing_is_for_sale() -> None:
    for market, book in ((market_of(), None), (market_of(), book_of([], [])), (market_of(fee=None), BOOK)):
        assert best_price(market, book, "yes") is None
        assert fill_of(market, book, "yes", 50) is None


def test_the_best_price_has_its_fee() -> None:
    assert best_price(market_of(), BOOK, "yes") == pytest.approx(0.4168)
    assert best_price(market_of(), BOOK, "no") == pytest.approx(0.62 + 0.07 * 0.62 * 0.38)
    assert best_price(pool_market(750, 250), None, "no") == pytest.approx(0.75)


@given(stake=st.floats(0.01, 5000), side=st.sampled_from(("yes", "no")), pooled=st.booleans())
def test_a_fill_costs_at_most_its_stake_and_a_larger_one_is_no_cheaper(stake: float, side: Side, pooled: bool) -> None:
    market, book = (pool_market(), None) if pooled else (market_of(fee=FeeTerms(0.04)), BOOK)
    small, large = fill_of(market, book, side, stake), fill_of(market, book, side, 2 * stake)
    if small is None or large is None:
        assert small is None
        return
    assert small.cost <= stake + 1e-6
    assert large.shares >= small.shares
    assert large.effective >= small.effective - 1e-9
    assert large.effective < 1
