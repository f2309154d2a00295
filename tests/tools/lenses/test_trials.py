"""Lenses over past sessions: outcomes against the universe's median, and what luck makes of many tries."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from chordesk.models.settings import Settings
from chordesk.tools.lenses.files import Lens, read_lens
from chordesk.tools.lenses.past import PastFigures
from chordesk.tools.lenses.trials import Trial, expected_best, outcome, trial_of, walk
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.model_tools.signals import SIGNALS_GET
from chordesk.tools.prices.close_table import CloseTable
from chordesk.tools.registry import ToolContext

DAYS = [dt.date(2020, 1, 1) + dt.timedelta(days=at) for at in range(4)]
CLOSES = CloseTable(
    DAYS,
    ["A", "B", "C"],
    np.array([[10.0, 10.0, 10.0], [11.0, 10.0, 9.0], [12.0, np.nan, 10.0], [12.0, np.nan, 8.0]]),
    {"B": 0.5},
)


def test_an_outcome_is_against_the_median_of_what_was_listed() -> None:
    # On the first day A rises by 20 % and C by none, B is paid half: the median is none.
    found = outcome({0: ("A", "B"), 1: ("C",), 2: ("A",)}, CLOSES, 2, 1)
    assert (found.n, found.open) == (3, 1)
    # From the second day A rises by 1/11, B loses a half, C a ninth, which is the median.
    assert found.mean == pytest.approx((0.2 - 0.5 + 0.0) / 3)
    assert found.beat == pytest.approx((1 + 0 + 0.5) / 3)
    assert found.low is None  # of three hits there is no error


def test_the_best_of_many_without_merit_is_as_far_off_as_is_said() -> None:
    random = np.random.default_rng(7)
    assert expected_best(1) == 0.0
    for tries in (2, 20, 200):
        drawn = random.normal(size=(20_000, tries)).max(axis=1)
        assert expected_best(tries) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 140)


def test_luck_alone_is_told_from_merit_one_time_in_twenty() -> None:
    """Of twenty lenses without merit over 240 independent sessions the best one is called merit one time in twenty."""
    random, tries, best, plain = np.random.default_rng(11), 20, 0, 0
    for _ in range(60):
        table = 100 * np.cumprod(1 + random.normal(0, 0.01, (246, 60)), axis=0)
        closes = CloseTable(
            [DAYS[0] + dt.timedelta(days=at) for at in range(246)], [f"N{at}" for at in range(60)], table
        )
        found = [
            outcome({row: (f"N{random.integers(60)}",) for row in range(0, 240, 5)}, closes, 5, tries)
            for _ in range(tries)
        ]
        chances = [one.chance for one in found if one.chance is not None and one.mean is not None and one.mean > 0]
        best += min(chances) < 0.05
        plain += any(1 - (1 - chance) ** (1 / tries) < 0.05 for chance in chances)
    assert best <= 9  # of 60 three are expected
    assert plain > 25  # without a word on the tries more than a half would be


RISING = """+++
by = 'rule'
where = 'momentum20 > 0 and rsi14 < 70'
score = 'momentum20 - volatility20'
hits = 5
+++
Rises.
"""


def tried(data: ReplayData, lenses: list[Lens], every: int = 1) -> tuple[Trial, dict[int, tuple[str, ...]]]:
    days = data.sessions
    last = ReplayMarket(data, ReplayClock(days[-1]))
    symbols = [listing.symbol for listing in last.universe("sp500")]
    past, rows = PastFigures(last, symbols, days), range(60, len(days) - 5, every)

    def context_of(row: int) -> ToolContext:
        market = ReplayMarket(data, ReplayClock(days[row]))
        return ToolContext(market, market.clock, None, Settings(), "paper", None)

    walked = walk(lenses, past, rows, lambda _: symbols, context_of)
    return trial_of(lenses[0], walked, past, past.closes(1.0), 1), walked[lenses[0].name].hits


def test_a_walk_puts_forward_what_a_plain_reading_of_the_tools_answers_does(data: ReplayData) -> None:
    """Of each tried session: the names by the tool's own rows, sorted by hand."""
    lens, other = read_lens("rising", RISING), read_lens("all", RISING.replace("hits = 5", "hits = 50"))
    found, hits = tried(data, [lens, other], every=40)
    for row, symbols in hits.items():
        market = ReplayMarket(data, ReplayClock(data.sessions[row]))
        context = ToolContext(market, market.clock, None, Settings(), "paper", None)
        names = [listing.symbol for listing in market.universe("sp500")]
        rows = [
            one
            for at in range(0, len(names), 150)
            for one in SIGNALS_GET.function(
                context, SIGNALS_GET.arguments.model_validate({"symbols": names[at : at + 150]})
            )["signals"]
        ]
        fit = [
            (one["volatility20"] - one["momentum20"], one["symbol"])
            for one in rows
            if None not in (one["momentum20"], one["rsi14"], one["volatility20"])
            and one["momentum20"] > 0
            and one["rsi14"] < 70
        ]
        assert list(symbols) == [symbol for _, symbol in sorted(fit)[:5]]
    assert found.overlap == {"all": 1.0}
    assert (found.sessions, found.hits) == (len(hits), sum(map(len, hits.values())))
    assert 0 <= found.undecided < 0.2
