"""Prices, fees, pools, outcomes that a venue takes back, and figures of funding rates."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.board.venues.funding import LEAST, FundingPaid, FundingRate, annual_rate, funding_figures
from chordesk.tools.board.venues.kalshi import FEE as KALSHI
from chordesk.tools.board.venues.markets import (
    Outcome,
    Pool,
    Side,
    VenueMarket,
    VenueState,
    changed_resolution,
    price_between,
    shares_for,
    taker_fee,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MARKET = VenueMarket(
    "kalshi", "KX-1", "Will it?", "https://kalshi.com", "", "resolved", 1.0, NOW, None, "resolved", None, None, 1.0, NOW
)


@pytest.mark.parametrize(
    ("bid", "ask", "price"),
    [(0.40, 0.44, 0.42), (0.4, 0.6, 0.5), (0.4, 0.61, None), (None, 0.4, None), (0.4, None, None), (None, None, None)],
)
def test_a_price_is_midway_only_between_two_close_sides(
    bid: float | None, ask: float | None, price: float | None
) -> None:
    assert price_between(bid, ask)[0] == price


@pytest.mark.parametrize(
    ("state", "outcome", "text"),
    [
        ("resolved", 1.0, None),
        ("resolved", 0.0, "kalshi gave KX-1 the outcome 1.0 and now gives it 0.0"),
        ("resolved", "void", "kalshi gave KX-1 the outcome 1.0 and now gives it void"),
        ("open", None, "kalshi gave KX-1 the outcome 1.0 and now has it open"),
    ],
)
def test_a_resolution_that_changes_is_seen(state: VenueState, outcome: Outcome | None, text: str | None) -> None:
    assert changed_resolution(replace(MARKET, state=state, outcome=outcome), 1.0) == text


prices = st.integers(1, 99).map(lambda cents: cents / 100)


@pytest.mark.parametrize(
    ("price", "contracts", "fee"),
    [
        (0.50, 100, 1.75),  # 0.07 * 100 * 0.25 = 1.75, exactly
        (0.50, 1, 0.02),  # 0.0175
        (0.01, 100, 0.07),  # 0.0693
        (0.35, 40, 0.64),  # 0.07 * 40 * 0.2275 = 0.637
        (0.99, 1, 0.01),  # 0.000693
        (0.50, 0, 0.0),
    ],
)
def test_a_takers_fee_at_kalshi_is_rounded_up_to_the_cent(price: float, contracts: float, fee: float) -> None:
    assert taker_fee(KALSHI, price, contracts) == fee


@pytest.mark.parametrize(("price", "contracts"), [(1.4, 1), (-0.1, 1), (0.5, -1), (float("nan"), 1)])
def test_a_fee_of_no_price_or_number_is_an_error(price: float, contracts: float) -> None:
    with pytest.raises(UsageError):
        taker_fee(KALSHI, price, contracts)


amounts = st.floats(1, 1e5)
pools = st.builds(Pool, amounts, amounts, st.floats(0.05, 0.95))
sides = st.sampled_from(("yes", "no"))


def price(pool: Pool, side: Side) -> float:
    """p * n / ((1 - p) * y + p * n) of YES, the rest of one of NO."""
    yes = pool.p * pool.no / ((1 - pool.p) * pool.yes + pool.p * pool.no)
    return yes if side == "yes" else 1 - yes


@pytest.mark.parametrize(
    ("pool", "bet", "shares"),
    [
        # y * n = 10,000; 100 paid leaves n = 200, so y = 50: 100 + 100 - 50 shares.
        (Pool(100, 100, 0.5), 100, 150),
        # y + b - (k * (b + n)^(p-1))^(1/p), k = y^p * n^(1-p)
        (Pool(400, 150, 0.3), 25, 425 - (400**0.3 * 150**0.7 * 175**-0.7) ** (1 / 0.3)),
    ],
)
def test_a_bet_buys_by_the_formula_of_the_venue(pool: Pool, bet: float, shares: float) -> None:
    assert shares_for(pool, "yes", bet) == pytest.approx(shares)
    with pytest.raises(UsageError, match="a bet of -1"):
        shares_for(pool, "yes", -1)


@given(pool=pools, side=sides, bet=st.floats(0.01, 1e4))
def test_a_share_costs_between_the_price_before_and_after(pool: Pool, side: Side, bet: float) -> None:
    shares = shares_for(pool, side, bet)
    left = Pool(pool.yes + bet, pool.no + bet, pool.p)
    after = replace(left, yes=left.yes - shares) if side == "yes" else replace(left, no=left.no - shares)
    assert price(pool, side) - 1e-6 <= bet / shares <= price(after, side) + 1e-6


FUNDED = dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def paid(rates: list[float]) -> list[FundingPaid]:
    return [
        FundingPaid(FUNDED - dt.timedelta(hours=len(rates) - 1 - number), rate) for number, rate in enumerate(rates)
    ]


def test_a_rate_without_an_interval_is_an_error() -> None:
    with pytest.raises(UsageError, match="every 0 hours"):
        annual_rate(0.0001, 0)


def test_figures_of_a_coin() -> None:
    rates = [0.00001, 0.00003] * 50 + [0.00004]
    predicted = [
        FundingRate("BinPerp", 0.0001, 8.0, None),
        FundingRate("HlPerp", 0.00004, 1.0, None),
        FundingRate("BybitPerp", -0.0001, None, None),
    ]
    figures = funding_figures("BTC", predicted, paid(rates), FUNDED)
    assert figures.annual == pytest.approx({"BinPerp": 0.1095, "HlPerp": 0.3504})
    assert figures.spread == pytest.approx(0.2409)
    assert (figures.same_sign, figures.payments) == (101, 101)
    assert figures.z == pytest.approx(0.00002 / (100 * 1e-10 / 99) ** 0.5)
    assert figures.lacks == ("BybitPerp does not state how often it pays",)


def test_missing_figures_are_stated() -> None:
    old = FundingPaid(FUNDED - dt.timedelta(days=31), 0.5)
    late = FundingPaid(FUNDED + dt.timedelta(hours=1), 0.5)
    figures = funding_figures("NEW", [FundingRate("HlPerp", 0.0001, 1.0, None)], [old, late, *paid([0.1, 0.2])], FUNDED)
    assert (figures.z, figures.spread, figures.payments) == (None, None, 2)
    assert figures.lacks == (
        "z-score: 2 payments in 30 days, more than 72 are needed",
        "spread: 1 venue with an annual rate, two are needed",
    )
    same = funding_figures("FLAT", [], paid([0.1] * (LEAST + 5)), FUNDED)
    assert "z-score: all payments before the last are equal" in same.lacks
