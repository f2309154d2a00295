"""earnings_dates: next and past reports, by what was known at the market's now."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chordesk.models.company import EarningsDate, Timing
from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY, FarClock
from tests.tools.research.company_market import CompanyMarket

NOW = FarClock().now()


def report(days: int, *, known: dt.datetime = NOW - dt.timedelta(days=200), **fields: Any) -> EarningsDate:
    return EarningsDate(symbol="A", date=TODAY + dt.timedelta(days=days), known_at=known, **fields)


def test_the_next_report_and_the_past_ones(make_context: MakeContext, call: Call) -> None:
    rows = [
        report(40, timing="afterClose", confirmed=True, eps_estimate=1.5),
        report(-50, eps_estimate=1.0, eps_actual=1.1),
        report(130),
        report(-140, eps_estimate=-0.5, eps_actual=-0.75),
        report(-230, eps_actual=2.0),
    ]
    answer = call(make_context(CompanyMarket(reports={"A": rows})), "earnings_dates", symbols=["A"], limit=2)
    (row,) = answer.payload["earnings"]
    known = "2023-08-28T15:55:00-04:00"
    assert row["next"] == {
        "date": "2024-04-24",
        "timing": "afterClose",
        "confirmed": True,
        "epsEstimate": 1.5,
        "knownAt": known,
        "daysUntil": 40,
    }
    assert row["past"] == [
        {"date": "2024-01-25", "epsEstimate": 1.0, "epsActual": 1.1, "knownAt": known, "surprise": 0.1},
        {"date": "2023-10-27", "epsEstimate": -0.5, "epsActual": -0.75, "knownAt": known, "surprise": -0.5},
    ]
    assert answer.payload["missing"] == [
        {"symbol": "A", "what": "older earnings dates", "reason": "3 are known, 2 are shown"}
    ]


@pytest.mark.parametrize(
    ("timing", "next_day"), [("beforeOpen", None), ("duringSession", 0), ("afterClose", 0), (None, 0)]
)
def test_a_report_of_today_is_out_by_its_hour(
    make_context: MakeContext, call: Call, timing: Timing | None, next_day: int | None
) -> None:
    """At 15:55, a report before the open is out; its actual figure is known then and not before."""
    market = CompanyMarket(reports={"A": [report(0, timing=timing, eps_actual=3.0)]})
    (row,) = call(make_context(market), "earnings_dates", symbols=["A"]).payload["earnings"]
    if next_day is None:
        assert row["next"] is None
        assert row["past"][0]["epsActual"] == 3.0
    else:
        assert row["next"]["daysUntil"] == next_day
        assert "epsActual" not in row["next"]
        assert row["past"] == []


def test_a_date_that_was_announced_later_is_not_known(make_context: MakeContext, call: Call) -> None:
    later = NOW + dt.timedelta(minutes=1)
    market = CompanyMarket(reports={"A": [report(20, known=later), report(-1, known=later)], "B": []})
    answer = call(make_context(market), "earnings_dates", symbols=["A", "B"])
    assert not answer.has_data
    assert answer.payload["earnings"] == []
    assert answer.payload["missing"] == [
        {"symbol": symbol, "what": f"{which} earnings date{'s' * (which == 'past')}", "reason": "not known"}
        for symbol in ("A", "B")
        for which in ("next", "past")
    ]


def test_a_window_is_ahead_until_its_last_day_has_ended(make_context: MakeContext, call: Call) -> None:
    market = CompanyMarket(reports={"A": [report(-2, until=TODAY, confirmed=False)]})
    (row,) = call(make_context(market), "earnings_dates", symbols=["A"]).payload["earnings"]
    assert (row["next"]["daysUntil"], row["next"]["until"], row["next"]["confirmed"]) == (0, str(TODAY), False)


def test_the_newest_row_of_a_date_counts(make_context: MakeContext, call: Call) -> None:
    rows = [report(9, eps_estimate=2.0, known=NOW), report(9, eps_estimate=1.0)]
    market = CompanyMarket(reports={"A": rows})
    (row,) = call(make_context(market), "earnings_dates", symbols=["A"]).payload["earnings"]
    assert row["next"]["epsEstimate"] == 2.0


def test_many_symbols_share_the_answer(make_context: MakeContext, call: Call) -> None:
    past = [report(-90 * quarter, eps_estimate=1.0, eps_actual=1.25) for quarter in range(1, 30)]
    names = [f"A{number}" for number in range(150)]
    market = CompanyMarket(reports={name: [report(9), *past] for name in names})
    answer = call(make_context(market), "earnings_dates", symbols=names, limit=40)
    assert answer.success
    assert [len(row["past"]) for row in answer.payload["earnings"]] == [1] * 150
    assert answer.payload["missing"][0]["reason"] == "29 are known, 1 are shown"


def test_the_replay_has_no_earnings_dates(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    answer = call(make_context(market), "earnings_dates", symbols=["AAPL", "MMM"])
    assert answer.success
    assert not answer.has_data
    assert answer.payload["missing"] == [
        {
            "what": "earnings dates",
            "reason": "not available: the replay market has no earnings dates; configure DESK_MARKET=yahoo for them, "
            "which has those of now alone",
        }
    ]


def test_a_symbol_s_trouble_is_its_own(make_context: MakeContext, call: Call) -> None:
    trouble = {"B": MarketUnavailable("too busy"), "NOPE": MarketError("unknown symbol NOPE")}
    market = CompanyMarket(reports={"A": [report(3)]}, trouble=trouble)
    answer = call(make_context(market), "earnings_dates", symbols=["B", "NOPE", "A"], limit=0)
    assert [row["symbol"] for row in answer.payload["earnings"]] == ["A"]
    assert answer.payload["missing"] == [
        {"symbol": "B", "what": "earnings dates", "reason": "too busy"},
        {"symbol": "NOPE", "what": "earnings dates", "reason": "unknown symbol NOPE"},
    ]
