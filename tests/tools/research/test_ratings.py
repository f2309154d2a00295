"""analyst_ratings and short_interest: figures of what was known."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.models.company import PriceTargets, RatingChange, ShortInterest
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY, FarClock
from tests.tools.research.company_market import CompanyMarket

NOW = FarClock().now()


def change(days: float, firm: str, action: str | None = "up", **fields: Any) -> RatingChange:
    return RatingChange(symbol="A", firm=firm, action=action, known_at=NOW - dt.timedelta(days=days), **fields)


def test_changes_are_counted_and_the_newest_shown(make_context: MakeContext, call: Call) -> None:
    rows = [
        change(3, "B", "down", rating="Sell", prior_rating="Hold", target=90, prior_target=110),
        change(-1, "tomorrow"),
        change(1, "C"),
        change(29, "D", None),
        change(30, "too old"),
    ]
    targets = [
        PriceTargets(symbol="A", mean=mean, low=80, high=120, analysts=7, known_at=NOW - dt.timedelta(days=days))
        for days, mean in ((9, 100), (2, 105), (-1, 500))
    ]
    market = CompanyMarket(changes={"A": rows}, targets={"A": targets})
    answer = call(make_context(market), "analyst_ratings", symbols=["A"], days=30, limit=2)
    (found,) = answer.payload["ratings"]
    assert (found["targets"]["mean"], found["targets"]["low"], found["targets"]["high"]) == (105, 80, 120)
    assert found["actions"] == {"up": 1, "down": 1, "unknown": 1}
    assert [row["firm"] for row in found["changes"]] == ["C", "B"]
    assert found["changes"][1] == {
        "date": "2024-03-12",
        "firm": "B",
        "action": "down",
        "rating": "Sell",
        "priorRating": "Hold",
        "target": 90,
        "priorTarget": 110,
        "knownAt": "2024-03-12T15:55:00-04:00",
    }
    assert answer.payload["missing"] == [
        {"symbol": "A", "what": "older rating changes", "reason": "3 are known, 2 are shown"}
    ]


def test_targets_without_changes_are_data(make_context: MakeContext, call: Call) -> None:
    market = CompanyMarket(targets={"A": [PriceTargets(symbol="A", rating="buy", known_at=NOW)]})
    answer = call(make_context(market), "analyst_ratings", symbols=["A"])
    assert answer.has_data
    assert answer.payload["ratings"][0]["targets"] == {"rating": "buy", "knownAt": NOW.isoformat()}
    assert answer.payload["missing"] == [
        {"symbol": "A", "what": "rating changes", "reason": "the source has none"},
    ]


def test_the_newest_known_settlement_counts(make_context: MakeContext, call: Call) -> None:
    rows = [
        ShortInterest(symbol="A", date=TODAY - dt.timedelta(days=days), shares_short=shares, known_at=at, **fields)
        for days, shares, at, fields in (
            (15, 120.0, NOW, {"ratio": 2.5, "of_float": 0.05, "prior_shares_short": 100.0}),
            (30, 100.0, NOW, {}),
            (1, 999.0, NOW + dt.timedelta(days=9), {}),
        )
    ]
    answer = call(make_context(CompanyMarket(shorts={"A": rows})), "short_interest", symbols=["A"])
    assert answer.payload["shortInterest"] == [
        {
            "symbol": "A",
            "date": str(TODAY - dt.timedelta(days=15)),
            "sharesShort": 120.0,
            "ratio": 2.5,
            "ofFloat": 0.05,
            "priorSharesShort": 100.0,
            "knownAt": NOW.isoformat(),
            "change": 0.2,
            "ageDays": 15,
        }
    ]


def test_without_a_settlement_before_there_is_no_change(make_context: MakeContext, call: Call) -> None:
    rows = [ShortInterest(symbol="A", date=TODAY, shares_short=5, prior_shares_short=0, known_at=NOW)]
    answer = call(make_context(CompanyMarket(shorts={"A": rows})), "short_interest", symbols=["A"])
    assert answer.payload["shortInterest"][0]["change"] is None
