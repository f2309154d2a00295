"""Bounds of a position's size: against an own computation, and what must hold for any book."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chordesk.models.settings import Settings
from chordesk.models.thesis import Pooled
from chordesk.tools.portfolio.size_bounds import EQUAL_RISK, HEAT, KELLY, HeatBook, HeldHeat, Standing, sizing, stress
from chordesk.tools.prices.price_panel import ledoit_wolf

EQUITY, SESSIONS = 100_000.0, 60
NAMES = [f"N{place}" for place in range(12)]


def moves(seed: int, names: int, common: float) -> dict[str, Any]:
    """Returns of names that share so much of their variance."""
    draw = np.random.default_rng(seed)
    market = draw.normal(0, 0.01, SESSIONS)
    own = draw.normal(0, 0.01, (names, SESSIONS))
    return {NAMES[row]: math.sqrt(common) * market + math.sqrt(1 - common) * own[row] for row in range(names)}


def standing(
    held: dict[str, float], atrs: dict[str, float], returns: dict[str, Any], cash: float = EQUITY, **limits: float
) -> Standing:
    """An account that holds so much money of each name; atrs: as a share of the price, which is 50."""
    units = {name: 2 * atr for name, atr in atrs.items()}
    rows = tuple(HeldHeat(name, money * units[name] / EQUITY, 1, money) for name, money in held.items())
    closes = dict.fromkeys(atrs, 50.0)
    return Standing(
        heat=HeatBook(EQUITY, rows, (), (), returns, units, closes),
        limits=Settings(**limits),
        free_cash=Decimal(str(cash)),
        exposures={name: Decimal(str(money)) for name, money in held.items()},
        sectors={name: f"sector {name}" for name in atrs},
        companies={},
        orders_left=10,
    )


def ranks(values: list[float]) -> Any:
    return np.argsort(np.argsort(np.array(values)))


def spearman(one: list[float], other: list[float]) -> float:
    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


WIDE = {"max_order_notional": 1e9, "max_symbol_notional": 1e9, "max_gross_notional": 1e9, "max_symbol_share": 1.0}


def test_days_to_trade_are_of_the_share_of_a_median_day_that_fills_may_be() -> None:
    now = standing({}, {"A": 0.025, "B": 0.025}, {}, **WIDE)
    thin = replace(now, heat=replace(now.heat, traded={"A": 40_000.0}), reports={"A": dt.date(2025, 4, 14)})
    found, unknown = (sizing(name, Pooled(probability=0.6), thin) for name in ("A", "B"))
    assert found.days_to_trade == round((found.most or 0.0) / 4_000, 2)
    assert (found.round_trip, found.next_report) == (0.001, dt.date(2025, 4, 14))
    assert unknown.days_to_trade is None
    assert any("no volume of B" in line for line in unknown.missing)


def test_sizes_fall_with_atr() -> None:
    """Equal risk by hand: a quarter of a per cent of 100,000 over twice an ATR of 2.5 % is 5,000, of 4.1 % 3,048.78."""
    draw = np.random.default_rng(7)
    atrs = {name: float(draw.uniform(0.008, 0.06)) for name in NAMES} | {"PTV": 0.025, "CF": 0.041}
    now = standing({}, atrs, {})
    found = {name: sizing(name, Pooled(), now) for name in atrs}
    assert (found["PTV"].most, found["CF"].most) == (5_000.0, 3_048.78)
    assert (found["PTV"].bound, found["PTV"].stop) == (EQUAL_RISK, 47.5)
    own = [min(250 / (2 * atrs[name]), 10_000.0) for name in atrs]
    assert spearman([one.most or 0.0 for one in found.values()], own) >= 0.9
    assert spearman([one.most or 0.0 for one in found.values()], list(atrs.values())) <= -0.9


def test_the_risk_of_an_entry_is_a_setting_up_to_the_other_limits() -> None:
    """Twice the share at risk is twice the position, until another bound is the strictest: 10 % of equity."""
    for risk, most in ((0.0025, 5_000.0), (0.005, 10_000.0), (0.01, 10_000.0)):
        found = sizing("PTV", Pooled(), standing({}, {"PTV": 0.025}, {}, position_risk=risk))
        assert found.most == most
        rules = {one.rule: one for one in found.bounds}
        assert rules[EQUAL_RISK].most == pytest.approx(risk * EQUITY / 0.05)
        assert rules[EQUAL_RISK].why.startswith(f"{risk:.2%} of equity")
    with pytest.raises(ValidationError, match="position_risk"):
        Settings(position_risk=0.06)


def test_sizes_fall_with_correlation() -> None:
    """Candidates of one ATR beside a holding that they share more and more with."""
    draw = np.random.default_rng(3)
    base = draw.normal(0, 0.01, SESSIONS)
    returns: dict[str, Any] = {"HELD": base}
    for place, name in enumerate(NAMES):
        share = place / (len(NAMES) - 1)
        returns[name] = share * base + math.sqrt(1 - share**2) * draw.normal(0, 0.01, SESSIONS)
    now = standing({"HELD": 5_000.0}, dict.fromkeys(returns, 0.025), returns)
    sizes = [sizing(name, Pooled(), now).most or 0.0 for name in NAMES]
    own = [
        5_000 / math.sqrt(1 + max(float(np.corrcoef(base, returns[name])[0, 1]), 0.0) * 0.0025 / 0.0025)
        for name in NAMES
    ]
    assert spearman(sizes, own) >= 0.9
    assert sizes == pytest.approx(own, abs=0.02)
    twin = sizing("HELD", Pooled(), now)
    assert twin.most == pytest.approx(5_000 / math.sqrt(2), abs=0.02)


def test_kelly_is_of_the_pooled_probability_and_a_near_stop_counts_as_an_atr() -> None:
    """p .62: a stake of (.62 - .5) / .5 / 4 = .06 of equity at risk, over 5 % to the stop."""
    now = standing({}, {"A": 0.025}, {}, **WIDE)
    found = sizing("A", Pooled(probability=0.62, low=0.5, high=0.9), now)
    assert {one.rule: one.most for one in found.bounds}[KELLY] == pytest.approx(0.06 * EQUITY / 0.05)
    even = sizing("A", Pooled(probability=0.5, low=0.4, high=0.6), now)
    assert {one.rule: one.most for one in even.bounds}[KELLY] == 0
    near = sizing("A", Pooled(invalidation_price=49.9, invalidation_source="chart: low20"), now)
    assert (near.stop, near.stop_source) == (49.9, "chart: low20")
    assert near.most == 10_000, "0.25 % of equity over one ATR of 2.5 %"
    above = sizing("A", Pooled(invalidation_price=51.0), now)
    assert above.stop == 47.5, "a level above the close is no stop of a long position"


def test_what_is_missing_is_said_and_the_strictest_known_bound_holds() -> None:
    now = standing({"B": 1_000.0}, {"B": 0.02}, {})
    bare = sizing("A", Pooled(), replace(now, heat=replace(now.heat, closes={"A": 50.0, "B": 50.0})))
    assert (bare.most, bare.bound, bare.stop, bare.atr14) == (10_000.0, "largest order", None, None)
    assert any(line.startswith("equal risk: no ATR14") for line in bare.missing)
    assert any(line.startswith("Kelly: ") for line in bare.missing)
    unpriced = sizing("C", Pooled(probability=0.7, low=0.6, high=0.8), now)
    assert (unpriced.most, unpriced.bound) == (None, None)
    unvalued = sizing("B", Pooled(), replace(now, heat=replace(now.heat, equity=None)))
    assert unvalued.most is None


def test_listings_of_one_company_are_one_symbol() -> None:
    now = standing({"UA": 9_500.0}, {"UA": 0.01, "UAA": 0.01}, {})
    apart = sizing("UAA", Pooled(), now)
    one = sizing("UAA", Pooled(), replace(now, companies={"UA": "under armour", "UAA": "under armour"}))
    assert apart.most is not None
    assert apart.most > 500
    assert (one.most, one.bound) == (500.0, "share of one symbol")
    assert one.overlap[0].same_company


books = st.tuples(
    st.integers(0, 10_000), st.integers(1, 8), st.floats(0, 0.95),
    st.lists(st.floats(0, 20_000), min_size=8, max_size=8),
    st.lists(st.floats(0.002, 0.12), min_size=12, max_size=12),
)  # fmt: skip


@given(books, st.floats(0.0, 1.0), st.floats(-5_000, 90_000))
def test_no_bound_is_exceeded_whatever_the_book(
    drawn: tuple[int, int, float, list[float], list[float]], low: float, cash: float
) -> None:
    """Positions are opened one after another, each at its bound; every limit holds after each."""
    seed, count, common, money, ranges = drawn
    atrs = dict(zip(NAMES, ranges, strict=True))
    held = {NAMES[place]: money[place] for place in range(count)}
    now = standing(held, atrs, moves(seed, 12, common), cash)
    limits = now.limits
    for name in NAMES[count:]:
        found = sizing(name, Pooled(low=low), now)
        assert found.most is not None
        assert found.most >= 0
        assert found.most == min(one.most for one in found.bounds if one.most is not None)
        if not found.most:
            continue
        assert found.most * 2 * atrs[name] <= 0.0025 * EQUITY + 0.01
        assert found.most <= min(limits.max_order_notional, limits.max_symbol_share * EQUITY)
        now = now.after(name, found.most)
        assert now.exposures is not None
        assert now.free_cash is not None
        assert sum(now.exposures.values()) <= limits.max_gross_notional
        assert now.free_cash >= 0
        assert now.heat.correlated <= limits.max_drawdown + 1e-9
    assert now.orders_left >= 0


def test_stress_by_hand() -> None:
    """Half of equity in a name with a beta of 2 and an ATR of 2 %: -10 % by the fall, -3 % by a gap of three ATRs."""
    market = np.tile([0.01, -0.01], 30)
    now = standing({"A": 50_000.0}, {"A": 0.02, "B": 0.02}, {"A": 2 * market, "B": market})
    found = stress(replace(now, market=market, market_names=40))
    assert found.market_fall == pytest.approx(-0.10)
    assert found.gap == pytest.approx(-0.03)
    assert found.worst_day == pytest.approx(0.5 * math.expm1(-0.02), abs=1e-4)
    assert (found.sessions, found.names, found.missing) == (60, 40, [])
    unknown = stress(replace(now, heat=replace(now.heat, missing=("X",))))
    assert unknown.market_fall is None
    assert unknown.missing == ["X: no price or ATR14", "beta: no name of the universe has its returns"]


@given(st.integers(0, 10_000), st.integers(2, 10), st.floats(0, 0.95))
def test_a_shrunk_covariance_lies_between_the_sample_and_equal_variances(seed: int, names: int, common: float) -> None:
    """Against the definition, day by day."""
    rows = np.array(list(moves(seed, names, common).values()))
    found = ledoit_wolf(rows)
    centred = rows - rows.mean(axis=1, keepdims=True)
    sample = centred @ centred.T / SESSIONS
    target = np.trace(sample) / names * np.eye(names)
    error = sum(((np.outer(day, day) - sample) ** 2).sum() for day in centred.T) / SESSIONS**2
    weight = min(error / ((sample - target) ** 2).sum(), 1)
    assert found == pytest.approx(weight * target + (1 - weight) * sample, rel=1e-9)
    assert np.linalg.eigvalsh(found).min() > 0


def test_what_a_position_adds() -> None:
    """Alone, 5 % of equity with a daily volatility s adds .05 s sqrt(252); heat is that of its size."""
    returns = {"A": np.tile([0.01, -0.01], 30)}
    found = sizing("A", Pooled(), standing({}, {"A": 0.025}, returns))
    assert found.volatility == pytest.approx(0.05 * 0.01 * math.sqrt(252), abs=1e-4)
    assert found.heat == pytest.approx(0.0025)
    assert (found.sector_share, found.sessions) == (0.05, 60)
    assert {one.rule: one.most for one in found.bounds}[HEAT] == pytest.approx(0.15 / 0.05 * EQUITY)
