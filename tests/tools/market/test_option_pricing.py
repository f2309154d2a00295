"""Prices, Greeks and implied volatilities: a known contract, a second library, and what must hold for any option."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.market.option_pricing import (
    Terms,
    american,
    beyond,
    continuation,
    greeks,
    implied_volatility,
    price,
    profit_probability,
    tick,
    written_returns,
    yang_zhang,
)
from chordesk.tools.prices import price_figures
from tests.tools.charts.samples import apple

BARS = apple().last(273)
COLUMNS = (BARS.open, BARS.high, BARS.low, BARS.close)
# MSFT260417P00335000 on 2026-03-27, quoted 3.85 to 3.95.
MSFT = Terms("put", 356.77, 335.0, 21 / 365, rate=0.04, dividend_yield=0.009)

terms = st.builds(
    Terms,
    kind=st.sampled_from(["call", "put"]),
    spot=st.floats(1, 2000),
    strike=st.floats(1, 2000),
    years=st.floats(1 / 365, 2),
    rate=st.floats(-0.02, 0.15),
    dividend_yield=st.floats(0, 0.1),
)
near = terms.filter(lambda one: abs(math.log(one.strike / one.spot)) < 2)
volatilities = st.floats(0.03, 2.5)


def test_a_put_that_was_quoted() -> None:
    found, why = implied_volatility(MSFT, 3.90)
    assert why is None
    assert found == pytest.approx(0.35962, abs=1e-5)
    figures = greeks(MSFT, found)
    assert figures.delta == pytest.approx(-0.21357, abs=1e-5)
    assert figures.theta == pytest.approx(-0.20632, abs=1e-5)
    assert figures.vega == pytest.approx(0.24902, abs=1e-5)
    assert beyond(MSFT, MSFT.strike, found) == pytest.approx(0.76036, abs=1e-5)


@pytest.fixture(scope="module")
def vollib() -> ModuleType:
    """A second library of prices. It loads all of scipy.stats, which only the process that runs its tests has to."""
    for part in ("greeks.analytical", "implied_volatility"):
        importlib.import_module(f"vollib.black_scholes_merton.{part}")
    return sys.modules["vollib.black_scholes_merton"]


@given(near, volatilities)
def test_greeks_agree_with_vollib(vollib: ModuleType, one: Terms, volatility: float) -> None:
    arguments = (one.kind[0], one.spot, one.strike, one.years, one.rate, volatility, one.dividend_yield)
    for name, found in greeks(one, volatility)._asdict().items():
        expected = float(getattr(vollib.greeks.analytical, name)(*arguments))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), name
    assert price(one, volatility) == pytest.approx(float(vollib.black_scholes_merton(*arguments)), rel=1e-6, abs=1e-6)


@given(near, volatilities, st.floats(1.001, 1.5))
def test_a_price_moves_one_way(one: Terms, volatility: float, more: float) -> None:
    """It rises with volatility; with the strike a put's rises and a call's falls; it lies within its bounds."""
    here, slack = price(one, volatility), 1e-9 * (one.spot + one.strike)
    assert price(one, volatility * more) >= here - slack
    higher = price(Terms(one.kind, one.spot, one.strike * more, one.years, one.rate, one.dividend_yield), volatility)
    assert one.sign * (here - higher) >= -slack
    assert one.least - slack <= here <= one.most + slack


@given(near, volatilities)
def test_a_price_gives_its_volatility_back_or_the_reason_for_none(
    vollib: ModuleType, one: Terms, volatility: float
) -> None:
    paid = price(one, volatility)
    found, why = implied_volatility(one, paid)
    if found is None:
        assert why
        assert paid - max(one.intrinsic, one.least) < tick(paid) or paid >= one.most
        return
    assert why is None
    assert price(one, found) == pytest.approx(paid, abs=1e-6 * one.spot)
    # Where the price says something about the volatility at all, it is the one that went in.
    if greeks(one, volatility).vega > 1e-4 * one.spot:
        assert found == pytest.approx(volatility, abs=1e-4)
        arguments = (paid, one.spot, one.strike, one.years, one.rate, one.dividend_yield, one.kind[0])
        other = vollib.implied_volatility.implied_volatility(*arguments)
        assert found == pytest.approx(float(other), abs=1e-6)


PUT = Terms("put", 100.0, 110.0, 30 / 365, rate=0.04)


@pytest.mark.parametrize(
    ("one", "paid", "why"),
    [
        (PUT, 0.0, "it has no price"),
        (PUT, math.nan, "it has no price"),
        (PUT, -1.0, "it has no price"),
        (PUT, 9.50, "its price 9.50 is below its intrinsic value 10.00"),
        (PUT, 10.04, "its time value is under a tick"),
        (PUT, 110.0, "its price 110.00 is more than any volatility gives"),
        (Terms("call", 100.0, 90.0, 30 / 365, rate=0.04), 10.30, "its time value is under a tick"),
        (Terms("put", 100.0, 90.0, 0.0, rate=0.04), 0.5, "it expires today"),
        (Terms("call", 100.0, 500.0, 1 / 365, rate=0.04), 2.0, "no volatility from 0.1% to 500% gives this price"),
    ],
)
def test_the_reasons_for_no_volatility(one: Terms, paid: float, why: str) -> None:
    assert implied_volatility(one, paid) == (None, why)


def test_pricing_loads_neither_scipy_nor_the_solver() -> None:
    code = (
        "import sys; from chordesk.tools.market.option_pricing import Terms, greeks, implied_volatility as iv;"
        "one = Terms('put', 100., 95., .1, .04); greeks(one, .3); before = 'lets_be_rational' in sys.modules;"
        "print(before, iv(one, 2.5)[1], 'lets_be_rational' in sys.modules, 'scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "None", "True", "False"]


def test_a_put_that_cash_secures() -> None:
    found = written_returns(MSFT, 3.90, 21)
    assert found is not None
    assert found.roc == pytest.approx(0.011642, abs=1e-6)
    assert found.weekly == pytest.approx(0.003881, abs=1e-6)
    assert found.annual == pytest.approx(0.20235, abs=1e-5)
    assert found.break_even == pytest.approx(331.10)
    assert profit_probability(MSFT, 3.90, 0.35962) == pytest.approx(0.80044, abs=1e-5)


def test_returns_of_a_covered_call_and_those_that_cannot_be_known() -> None:
    found = written_returns(Terms("call", 50.0, 55.0, 30 / 365, rate=0.0), 1.0, 30)
    assert found is not None
    assert (found.roc, found.break_even) == (0.02, 56.0), "it earns on the price of the share"
    assert written_returns(MSFT, 3.90, 0) is None, "on the last day there is no return a week"
    assert profit_probability(MSFT, 335.0, 0.3) is None, "a premium of the whole strike"


@given(near, volatilities, st.floats(0.0, 0.9))
def test_a_larger_premium_is_the_safer_one(one: Terms, volatility: float, share: float) -> None:
    """More premium moves the break-even away from the share's price."""
    less, more = (profit_probability(one, part * share * one.strike, volatility) for part in (0.5, 1.0))
    assert less is not None
    assert more is not None
    assert 0.0 <= less <= more <= 1.0


def test_volatilities_of_known_bars() -> None:
    assert yang_zhang(*COLUMNS, 20) == pytest.approx(0.328238, abs=1e-6)
    assert price_figures.volatility(BARS.close, 20) == pytest.approx(0.335004, abs=1e-6)
    assert price_figures.volatility(BARS.close, 60) == pytest.approx(0.236149, abs=1e-6)
    assert price_figures.volatility_rank(BARS.close, 20, 252) == pytest.approx((0.7210, 252), abs=1e-4)


def test_too_few_bars_a_hole_or_a_flat_line_have_none() -> None:
    assert yang_zhang(*(column[-20:] for column in COLUMNS), 20) is None
    assert yang_zhang(*(column[-21:] for column in COLUMNS), 20) is not None
    assert yang_zhang(*COLUMNS, 1) is None
    assert yang_zhang(*(np.r_[column[:-5], np.nan, column[-4:]] for column in COLUMNS), 20) is None
    flat = np.full(40, 10.0)
    assert yang_zhang(flat, flat, flat, flat, 20) == 0.0
    assert price_figures.volatility_rank(flat, 20, 252) == (None, 20)


@given(st.floats(0.01, 1000), st.integers(0, 200))
def test_scale_and_older_bars_do_not_count(scale: float, dropped: int) -> None:
    moved = [column[dropped:] * scale for column in COLUMNS]
    assert yang_zhang(*moved, 20) == pytest.approx(yang_zhang(*COLUMNS, 20), rel=1e-9)


@pytest.mark.parametrize(
    ("terms", "volatility", "european", "waiting", "worth"),
    [
        (Terms("put", 70.0, 100.0, 0.5, rate=0.05), 0.3, 27.97, 29.99, 30.00),
        (Terms("put", 100.0, 100.0, 0.5, rate=0.05), 0.3, 7.17, 7.39, 7.39),
        (Terms("call", 100.0, 90.0, 0.5, rate=0.05, dividend_yield=0.1), 0.3, 11.94, 12.60, 12.60),
        (Terms("put", 100.0, 100.0, 0.5, rate=0.0), 0.3, 8.45, 8.45, 8.45),
    ],
)
def test_an_american_option_is_worth_its_exercise_where_that_is_more(
    terms: Terms, volatility: float, european: float, waiting: float, worth: float
) -> None:
    """Against a tree of 2,000 steps; the second and third are textbook cases with an early exercise."""
    found = [price(terms, volatility), continuation(terms, volatility), american(terms, volatility)]
    assert found == pytest.approx([european, waiting, worth], abs=0.01)
    assert american(terms, volatility, 50) == pytest.approx(worth, abs=0.025)
