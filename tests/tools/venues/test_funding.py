"""Figures of funding rates against values computed by hand."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.venues.funding import (
    LEAST,
    FundingPaid,
    FundingRate,
    annual_rate,
    funding_figures,
    same_sign,
    z_score,
)

NOW = dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def paid(rates: list[float]) -> list[FundingPaid]:
    return [FundingPaid(NOW - dt.timedelta(hours=len(rates) - 1 - number), rate) for number, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("rate", "hours", "annual"), [(0.0001, 8, 0.1095), (0.0000125, 1, 0.1095), (-0.0002, 4, -0.438)]
)
def test_an_annual_rate(rate: float, hours: float, annual: float) -> None:
    assert annual_rate(rate, hours) == pytest.approx(annual)


def test_a_rate_without_an_interval_is_an_error() -> None:
    with pytest.raises(UsageError, match="every 0 hours"):
        annual_rate(0.0001, 0)


def test_a_z_score_is_against_what_was_before() -> None:
    before = [1.0, 2.0, 3.0] * 24  # mean 2, sample deviation sqrt(48 / 71)
    assert z_score(4.0, before) == pytest.approx(2 / (48 / 71) ** 0.5)
    assert z_score(4.0, before[1:]) is None
    assert z_score(4.0, [1.0] * LEAST) is None


@pytest.mark.parametrize(
    ("rates", "count"), [([1, -1, 2, 3], 3), ([1, 1, -1], 1), ([0.0, 1], 1), ([1, 0.0], 0), ([], 0)]
)
def test_payments_of_the_last_sign_are_counted(rates: list[float], count: int) -> None:
    assert same_sign(rates) == count


def test_figures_of_a_coin() -> None:
    rates = [0.00001, 0.00003] * 50 + [0.00004]
    predicted = [
        FundingRate("BinPerp", 0.0001, 8.0, None),
        FundingRate("HlPerp", 0.00004, 1.0, None),
        FundingRate("BybitPerp", -0.0001, None, None),
    ]
    figures = funding_figures("BTC", predicted, paid(rates), NOW)
    assert figures.annual == pytest.approx({"BinPerp": 0.1095, "HlPerp": 0.3504})
    assert figures.spread == pytest.approx(0.2409)
    assert (figures.same_sign, figures.payments) == (101, 101)
    assert figures.z == pytest.approx(0.00002 / (100 * 1e-10 / 99) ** 0.5)
    assert figures.lacks == ("BybitPerp does not state how often it pays",)


def test_missing_figures_are_stated() -> None:
    old = FundingPaid(NOW - dt.timedelta(days=31), 0.5)
    late = FundingPaid(NOW + dt.timedelta(hours=1), 0.5)
    figures = funding_figures("NEW", [FundingRate("HlPerp", 0.0001, 1.0, None)], [old, late, *paid([0.1, 0.2])], NOW)
    assert (figures.z, figures.spread, figures.payments) == (None, None, 2)
    assert figures.lacks == (
        "z-score: 2 payments in 30 days, more than 72 are needed",
        "spread: 1 venue with an annual rate, two are needed",
    )
    same = funding_figures("FLAT", [], paid([0.1] * (LEAST + 5)), NOW)
    assert "z-score: all payments before the last are equal" in same.lacks


@given(rates=st.lists(st.floats(-0.01, 0.01), max_size=40))
def test_the_count_of_a_sign_is_at_most_all_and_includes_the_last(rates: list[float]) -> None:
    count = same_sign(rates)
    assert 0 <= count <= len(rates)
    assert (count > 0) == bool(rates and rates[-1])
