"""What a backtest came to against chance: benchmarks of the same risk, intervals, trials, and the sentence by rule."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chordesk.models.tables.orders import Fill
from chordesk.tools.market.protocol import Action
from chordesk.tools.measure import backtest_performance
from chordesk.tools.measure.backtest_performance import (
    BETA,
    EXPOSURE,
    Course,
    Performance,
    RandomEntry,
    best_of_chance,
    capacities_of,
    conclusion,
    course_of,
    deflated_sharpe,
    excess_of,
    overfitting,
    performance,
    random_entry,
)
from chordesk.tools.portfolio.lots import Lot, lots_of
from chordesk.tools.prices.close_table import CloseTable
from chordesk.tools.scoring.inference import LEAST_VALUES

LUCKY = RandomEntry(9, 100.0, 0.0, -50.0, 50.0, 0.999)


def a_course(seed: int, steps: int = 250, *, exposure: float = 0.5, edge: float = 0.0, drift: float = 0.002) -> Course:
    """A desk that holds a share of a rising universe, with noise of its own and an edge a step."""
    draws = np.random.default_rng(seed)
    even = drift + draws.normal(0, 0.01, steps)
    desk = exposure * even + edge + draws.normal(0, 0.003, steps)
    full = np.full(steps, exposure)
    return Course(desk, even, even, full, np.full(steps, 0.1) + draws.normal(0, 0.01, steps), full / 1_000, 252.0)


def sentence(course: Course, *, random: RandomEntry | None = LUCKY, trials: Sequence[np.ndarray] = ()) -> str:
    return conclusion(performance(course, random, [], trials), rules=False)


def test_half_invested_in_a_rising_market_is_no_loss() -> None:
    """Against the universe bought and held it lacks half of the rise, told from 0; that is its exposure."""
    found = performance(a_course(1, drift=0.004), LUCKY, [], [])
    rows = {one.name: one for one in found.differences}
    assert rows["the universe bought and held"].told
    assert rows["the universe bought and held"].mean < 0
    assert not rows[EXPOSURE].told
    assert not rows[BETA].told
    assert found.beta == pytest.approx(0.5, abs=0.05)
    assert conclusion(found, rules=False).startswith("It cannot be told whether the desk")


def test_the_matched_differences_cover_a_desk_without_an_edge() -> None:
    """Of 200 desks without an edge some 5 % are told from the matched universes, and of those with one nearly all."""
    idle = [performance(a_course(seed, 120), None, [], []) for seed in range(200)]
    for name in (EXPOSURE, BETA):
        rows = [one for found in idle for one in found.differences if one.name == name]
        covered = np.mean([(one.low or 0) <= 0 <= (one.high or 0) for one in rows])
        assert 0.91 <= covered <= 0.985
    assert np.mean(["cannot be told" in sentence(a_course(seed, 120)) for seed in range(60)]) > 0.9
    assert np.mean(["better than chance" in sentence(a_course(seed, 120, edge=0.0015)) for seed in range(40)]) > 0.9
    assert np.mean(["worse than chance" in sentence(a_course(seed, 120, edge=-0.0015)) for seed in range(40)]) > 0.9


def test_a_sharpe_ratio_covers_its_truth() -> None:
    """Of steps with mean .05 and deviation 1 it is .05 * sqrt(252) a year."""
    held = 0
    for seed in range(100):
        course = replace(a_course(0, 250), desk=np.random.default_rng(seed).normal(0.0005, 0.01, 250))
        found = next(one for one in performance(course, None, [], []).measures if one.name.startswith("Sharpe"))
        assert found.low is not None
        assert found.high is not None
        assert found.value == pytest.approx(course.desk.mean() / course.desk.std() * 252**0.5)
        held += found.low <= 0.05 * 252**0.5 <= found.high
    assert 0.89 <= held / 100 <= 0.99


@pytest.mark.parametrize(
    ("edge", "steps", "changes", "said"),
    [
        (0.003, 120, {}, "better than chance explains"),
        (-0.003, 120, {}, "worse than chance explains"),
        (0.003, LEAST_VALUES - 1, {}, f"{LEAST_VALUES - 1} steps between sessions are too few"),
        (0.003, 120, {"random": None}, "no shares were held"),
        (0.003, 120, {"random": replace(LUCKY, share=0.9)}, "10.0% of random entries"),
        (0.003, 120, {"deflated": 0.9}, "best of 1 by chance is 90%"),
        (0.003, 120, {"overfitting": 0.6, "trials": 4}, "best of 4 configurations is overfitted"),
    ],
)
def test_the_sentence_follows_from_the_figures(edge: float, steps: int, changes: dict[str, Any], said: str) -> None:
    found = replace(performance(a_course(3, steps, edge=edge), LUCKY, [], []), **changes)
    text = conclusion(found, rules=False)
    assert said in text
    assert ("cannot be told" in text) == ("than chance" not in text)
    assert text.endswith(".")
    assert ". " not in text, "it is one sentence"


def test_idle_cash_earns_its_rate_on_both_sides() -> None:
    """A desk that is half in the universe, in a book that pays no interest, has half of the universe's excess: the same
    Sharpe ratio, and no difference at the same exposure or beta. One in cash alone has none to any of them."""
    draws = np.random.default_rng(8)
    even = 0.0005 + draws.normal(0, 0.01, 200)
    course = replace(a_course(0, 200), even=even, held=even, cash=0.0002)
    half, none = replace(course, desk=even / 2), replace(course, desk=np.zeros(200), exposure=np.zeros(200))
    whole = replace(course, desk=even, exposure=np.ones(200))
    ratios = [performance(one, None, [], []).measures[0].value for one in (half, whole)]
    assert ratios[0] == pytest.approx((even - 0.0002).mean() / even.std() * 252**0.5)
    assert ratios[0] == pytest.approx(ratios[1])
    found = performance(half, None, [], [])
    rows = {one.name: one for one in found.differences}
    assert found.beta == pytest.approx(0.5)
    assert rows[EXPOSURE].mean == pytest.approx(0, abs=1e-12)
    assert rows[BETA].mean == pytest.approx(0, abs=1e-12)
    assert rows["cash"].mean == pytest.approx((even.mean() - 0.0002) / 2)
    assert rows["cash"].returned == pytest.approx(1.0002**200 - 1)
    assert rows[EXPOSURE].returned == pytest.approx(np.prod(1 + even / 2 + 0.0001) - 1)
    idle = {one.name: one for one in performance(none, None, [], []).differences}
    assert [idle[name].mean for name in (EXPOSURE, BETA, "cash")] == pytest.approx([0, 0, 0], abs=1e-12)
    assert performance(none, None, [], []).deflated is None
    assert "over 200 steps are all alike" in conclusion(performance(none, None, [], []), rules=True)
    steps = excess_of([100.0, None, 101.0, 102.01], [1.0, None, 0.0, 0.0], 5, 0.0504)
    assert steps == pytest.approx([0.01]), "of the steps with both ends, without what cash earned by itself"


def test_without_a_step_nothing_can_be_told() -> None:
    for equity in ([], [100.0], [None, None]):
        count = len(equity)
        course = course_of(equity, [0.5] * count, [0.0] * count, [0.0] * count, [1.0] * count, [1.0] * count, 1.0)
        found = performance(course, None, [], [])
        assert "0 steps" in conclusion(found, rules=True)
        assert {one.value for one in found.measures} == {None}


def test_a_step_without_a_price_is_left_out() -> None:
    course = course_of(
        [100, 110, None, 120, 132, 132], [0, 0.5, None, 0.4, 0.6, 1.0], [0, 11, 5, 6, 12, 0], [0, 1.1, 1, 1, 1.2, 0],
        [1, 2, 3, 4, 6, 6], [1, 2, 2, 2, 3, 3], 5.0,
    )  # fmt: skip
    assert course.desk == pytest.approx([0.1, 0.1, 0.0])
    assert course.held == pytest.approx([1.0, 0.5, 0.0])
    assert course.exposure == pytest.approx([0.25, 0.5, 0.8])
    assert course.turnover == pytest.approx([0.11, 0.1, 0])
    assert course.costs == pytest.approx([0.011, 0.01, 0])
    assert course.a_year == pytest.approx(252 / 5)


def test_figures_of_all_kinds_have_an_interval_or_too_few() -> None:
    draws = np.random.default_rng(2)
    whole = performance(a_course(2), None, np.exp(draws.normal(12, 1, 100)).tolist(), [])
    assert len(whole.measures) == 6
    for one in whole.measures:
        if one.name.startswith("costs"):
            assert (one.low, one.lack) == (None, "all alike")
            continue
        assert one.value is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low < one.high
        if "fall" not in one.name:
            assert one.low < one.value < one.high
    assert {one.lack for one in performance(a_course(2, 20), None, [9.0], []).measures} == {"too few"}


def test_the_deflated_sharpe_ratio_is_that_of_its_paper() -> None:
    """A hundred trials with a variance of 1/2 a year have a mean best of .1132 a day; 2.5 a year over 1,250 days with
    skewness -3 and kurtosis 10 is above it with .9004 (Bailey and Lopez de Prado, 2014, section on a numerical
    example)."""
    ratios = np.random.default_rng(1).normal(size=100)
    ratios *= (0.5 / 250) ** 0.5 / ratios.std(ddof=1)
    assert best_of_chance(ratios.tolist()) == pytest.approx(0.1132, abs=1e-4)
    # Of distributions with this skewness and kurtosis there is one, of two values.
    steps = np.repeat([0.0, 1.0], [105, 1_145])
    returns = 2.5 / 250**0.5 + (steps - steps.mean()) / steps.std()
    assert deflated_sharpe(returns, ratios.tolist()) == pytest.approx(0.9004, abs=5e-4)
    assert deflated_sharpe(returns[: LEAST_VALUES - 1], ratios.tolist()) is None


def test_the_best_of_noise_is_overfitted_and_skill_is_not() -> None:
    draws = np.random.default_rng(4)
    noise = [overfitting(draws.normal(size=(120, 10))) for _ in range(12)]
    assert np.mean([one for one in noise if one is not None]) == pytest.approx(0.5, abs=0.15)
    skilled = draws.normal(size=(120, 10))
    skilled[:, 3] += 0.5
    assert overfitting(skilled) == pytest.approx(0.0, abs=0.05)
    assert overfitting(skilled[:, :1]) is None
    assert overfitting(skilled[:20]) is None


DAYS = [dt.date(2010, 1, 4) + dt.timedelta(days=day) for day in range(60)]


def closes(seed: int = 0, names: int = 20) -> CloseTable:
    moves = np.random.default_rng(seed).normal(0.001, 0.02, (len(DAYS), names))
    return CloseTable(DAYS, [f"S{at}" for at in range(names)], 100 * np.exp(np.cumsum(moves, axis=0)))


def a_fill(number: int, symbol: str, day: int, side: str, quantity: float, price: float, fee: float = 0.0) -> Fill:
    at = dt.datetime.combine(DAYS[day], dt.time(15), dt.UTC)
    return Fill(
        id=f"f{number}", order_id="o", account="a", symbol=symbol, side=side, quantity=quantity, price=price,
        commission=fee, filled_at=at, created_at=at,
    )  # fmt: skip


def test_lots_are_first_bought_first_sold_with_their_fees() -> None:
    table = closes()
    fills = [
        a_fill(1, "S1", 0, "buy", 10, 100, 1.0),
        a_fill(2, "S1", 5, "buy", 10, 110),
        a_fill(3, "S1", 9, "sell", 15, 120, 3.0),
        a_fill(4, "S1", 9, "sell", 0, 120),
        a_fill(5, "S2", 9, "sell", 5, 120),
        a_fill(6, "S1100821P00022500", 2, "buy", 1, 2),
    ]
    first, second, rest = lots_of(fills, table, {})
    assert first == Lot("S1", 0, 9, pytest.approx(1001), pytest.approx(10 * (119.8 - 100.1)), True)
    assert second == Lot("S1", 5, 9, 550, pytest.approx(5 * (119.8 - 110)), True)
    last = float(table.table[-1, 1])
    assert rest == Lot("S1", 5, 59, 550, pytest.approx(5 * (last - 110)), False)


def test_a_lot_is_in_shares_of_the_last_day_and_has_its_dividends() -> None:
    table, fills = closes(), [a_fill(1, "S1", 0, "buy", 10, 100), a_fill(2, "S1", 9, "sell", 10, 55)]
    actions = [Action(table.days[3], 1.0, 2.0, 1.02), Action(table.days[5], 2.0, 0.0, 2.0)]
    first, rest = lots_of(fills, table, {"S1": actions})
    assert first == Lot("S1", 0, 9, pytest.approx(500), pytest.approx(10 * (55 + 1 - 50)), True)
    last = float(table.table[-1, 1])
    assert rest == Lot("S1", 0, 59, pytest.approx(500), pytest.approx(10 * (last + 1 - 50)), False)


def bought_blindly(table: CloseTable, draws: np.random.Generator, entries: int, parts: int, days: int) -> list[Lot]:
    """The lots of a desk that knows nothing: names of its days by chance, each sold in parts."""
    worth, lots = table.carried(), []
    opened = draws.integers(0, 40, days)
    for entry in range(entries):
        day = int(opened[entry % days])
        held = {lot.symbol for lot in lots if lot.bought == day}
        free = [one for one, there in zip(table.symbols, table.listed(day), strict=True) if there and one not in held]
        symbol = str(draws.choice(free))
        name = list(table.symbols).index(symbol)
        for part in range(parts):
            until = day + 3 + 4 * part + int(draws.integers(0, 4))
            grown = float(worth[until, name] / worth[day, name]) - 1
            lots.append(Lot(symbol, day, until, 1_000.0, 1_000 * (grown - 2 * 0.0005), True, f"{entry}"))
    return lots


def leaving(seed: int) -> CloseTable:
    """A universe of names that hang together, a quarter of which leave and a quarter arrive later."""
    table, draws = closes(seed), np.random.default_rng(seed)
    shared = np.exp(np.cumsum(draws.normal(0, 0.02, (len(DAYS), 2)), axis=0))
    values = table.table * shared[:, np.arange(20) % 2]
    for column in range(0, 20, 4):
        values[draws.integers(45, 60) :, column] = np.nan
        values[: draws.integers(1, 35), column + 1] = np.nan
    return CloseTable(table.days, table.symbols, values, {f"S{column}": 1.0 for column in range(0, 20, 4)})


@pytest.mark.parametrize(
    ("entries", "parts", "days", "market"), [(8, 3, 1, closes), (8, 1, 8, closes), (12, 2, 3, leaving)]
)
def test_a_desk_without_skill_is_seldom_above_the_random_entries(
    entries: int, parts: int, days: int, market: Callable[[int], CloseTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above 97.5 % of the draws in 2.5 % of the cases, by chance 1 to 5 % of 300; as many lie below the lowest."""
    monkeypatch.setattr(backtest_performance, "DRAWS", 200)
    shares = []
    for seed in range(300):
        table = market(seed)
        lots = bought_blindly(table, np.random.default_rng(seed + 1_000), entries, parts, days)
        found = random_entry(lots, table, 0.0005)
        assert found is not None
        assert (found.lots, found.entries) == (entries * parts, entries) or days > 1
        shares.append(found.share)
    assert 0.01 <= np.mean([share > 0.975 for share in shares]) <= 0.05
    assert 0.01 <= np.mean([share < 0.025 for share in shares]) <= 0.05
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)


def test_the_best_names_of_their_days_are_above_all_random_entries() -> None:
    table, lots = closes(1), []
    for start in np.random.default_rng(6).integers(0, 45, 40).tolist():
        grown = table.table[start + 10] / table.table[start] - 1
        name = int(grown.argmax())
        lots.append(Lot(f"S{name}", start, start + 10, 1_000.0, 1_000 * float(grown[name]) - 1.0, True))
    best = random_entry(lots, table, 0.0005)
    assert best is not None
    assert best.share == 1.0
    assert best == random_entry(lots, table, 0.0005), "the draws are the same again"


def test_random_entries_need_a_name_to_choose() -> None:
    one = closes(1, names=1)
    assert random_entry([], closes(1), 0.0) is None
    assert random_entry([Lot("S0", 0, 5, 1_000.0, 10.0, True)], one, 0.0) is None
    assert random_entry([Lot("S0", 5, 5, 1_000.0, 10.0, True)], closes(1), 0.0) is None


def test_capacity_is_where_the_largest_order_of_a_day_would_be_all_that_fills() -> None:
    fills = [a_fill(1, "S1", 0, "buy", 10, 1), a_fill(2, "S2", 0, "buy", 30, 1), a_fill(3, "S3", 1, "sell", 5, 1)]
    volumes = {("S1", DAYS[0]): 1_000.0, ("S2", DAYS[0]): 1_000.0, ("S3", DAYS[1]): 0.0}
    assert capacities_of(fills, volumes, 100_000, 0.1) == pytest.approx([100_000 * 0.1 / 0.03])


def test_trials_count_for_the_deflated_ratio() -> None:
    draws = np.random.default_rng(7)
    course = a_course(5, 120, edge=0.0006)
    trials = [draws.normal(0, 0.01, 120) for _ in range(20)]
    alone, many = performance(course, LUCKY, [], []), performance(course, LUCKY, [], trials)
    assert (alone.trials, many.trials, alone.overfitting) == (1, 21, None)
    assert many.overfitting is not None
    assert (alone.deflated or 0) > (many.deflated or 0)
    assert isinstance(many, Performance)
    # Of other days they count as well, by their t statistic, and are no columns beside this one.
    longer = [np.tile(one, 4) for one in trials]
    other = performance(course, LUCKY, [], [], longer)
    assert (other.trials, other.overfitting) == (21, None)
    twice = [course.excess, *(one * 2 for one in trials)]
    assert other.deflated == pytest.approx(
        deflated_sharpe(
            course.excess,
            [course.excess.mean() / course.excess.std(), *(2 * one.mean() / one.std() for one in twice[1:])],
        )
    )
