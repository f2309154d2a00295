"""What Yahoo knows of companies: the real yfinance against a loopback stand-in of Yahoo's endpoints."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from chordesk.models.company import EarningsDate, RatingChange
from chordesk.models.errors import MarketError, MarketUnavailable, NotConfigured
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.protocol import (
    EarningsSource,
    HolderSource,
    InsiderSource,
    RatingsSource,
    ShortInterestSource,
)
from chordesk.tools.market.yahoo.market import YahooMarket, build_yahoo
from tests.fakes.yahoo import FarYahoo
from tests.tools.market.far_market import TODAY, NowClock

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NOW = NowClock().now()


def seconds(day: dt.date, hour: int = 0, zone: dt.tzinfo = dt.UTC) -> int:
    return int(dt.datetime.combine(day, dt.time(hour), zone).timestamp())


@pytest.fixture
def apple(far: FarYahoo) -> FarYahoo:
    """The stand-in with rows of each kind of AAPL, some of them of tomorrow."""
    far.infos["AAPL"] = {
        "longName": "Apple Inc.", "sharesShort": 120_000_000, "sharesShortPriorMonth": 100_000_000,
        "sharesShortPreviousMonthDate": seconds(dt.date(2024, 1, 31)),
        "dateShortInterest": seconds(dt.date(2024, 2, 29)), "shortRatio": 2.1, "shortPercentOfFloat": 0.0079,
        "sharesPercentSharesOut": 0.0078, "targetMeanPrice": 200.5, "targetMedianPrice": 201, "targetLowPrice": 150,
        "targetHighPrice": 250, "numberOfAnalystOpinions": 39, "recommendationKey": "buy", "recommendationMean": 2.0,
    }  # fmt: skip
    far.quotes["AAPL"] = {
        "earningsTimestampStart": seconds(dt.date(2024, 5, 2), 16, NEW_YORK),
        "earningsTimestampEnd": seconds(dt.date(2024, 5, 6), 16, NEW_YORK),
        "isEarningsDateEstimate": True,
    }
    far.reports["AAPL"] = [
        ("August 1, 2024 at 4 PM EDT", "1.35", "-"),
        ("February 1, 2024 at 4 PM EST", "2.1", "2.18"),
        ("November 2, 2023 at 8 AM EDT", "1.39", "1.46"),
        ("August 3, 2023 at 12 AM EDT", "1.19", "-"),
    ]
    grade = {"firm": "Wedbush", "toGrade": "Outperform", "fromGrade": "Neutral", "action": "up"}
    raised = {"priceTargetAction": "Raises", "currentPriceTarget": 250.0, "priorPriceTarget": 0.0}
    history = [
        {"epochGradeDate": seconds(dt.date(2024, 3, 16)), **grade, "firm": "Tomorrow & Co"},
        {"epochGradeDate": seconds(dt.date(2024, 3, 11), 12), **grade, **raised},
        {"epochGradeDate": seconds(dt.date(2023, 3, 11), 12), **grade, "firm": "Older"},
    ]
    trades = [
        trade("2024-03-01", "COOK TIMOTHY D", "Sale at price 180.00 - 182.00 per share.", 1000, 181_000),
        trade("2024-02-01", "LEVINSON ARTHUR D", "Purchase at price 170.00 per share.", 100, 17_000),
        trade("2024-01-15", "MAESTRI LUCA", "Stock Gift at price 0.00 per share.", 50, 0),
        trade("2023-01-15", "MAESTRI LUCA", "", 70, None),
    ]
    holder = {
        "maxAge": 1, "reportDate": seconds(dt.date(2023, 12, 31)), "organization": "Vanguard Group Inc",
        "pctHeld": 0.0843, "position": 1_300_000_000, "value": 1, "pctChange": -0.0012,
    }  # fmt: skip
    far.modules["AAPL"] = {
        "upgradeDowngradeHistory": {"history": history},
        "insiderTransactions": {"transactions": trades},
        "institutionOwnership": {"ownershipList": [holder]},
    }
    return far


def trade(day: str, name: str, text: str, shares: int, value: int | None) -> dict[str, object]:
    row = {"filerName": name, "filerRelation": "Officer", "filerUrl": "", "moneyText": "", "ownership": "D"}
    figures = {"shares": {"raw": shares}, "value": {"raw": value} if value is not None else {}}
    return {"maxAge": 1, "startDate": seconds(dt.date.fromisoformat(day)), "transactionText": text, **row, **figures}


def test_earnings_are_of_the_calendar_and_the_next_is_a_window(live: YahooMarket, apple: FarYahoo) -> None:
    assert isinstance(live, EarningsSource)
    found = {row.date: row for row in live.earnings("AAPL")}
    window = found[dt.date(2024, 5, 2)]
    assert (window.until, window.timing, window.confirmed) == (dt.date(2024, 5, 6), None, False)
    ahead = found[dt.date(2024, 8, 1)]
    assert (ahead.timing, ahead.eps_estimate, ahead.eps_actual) == ("afterClose", 1.35, None)
    past = found[dt.date(2023, 11, 2)]
    assert (past.timing, past.eps_estimate, past.eps_actual) == ("beforeOpen", 1.39, 1.46)
    assert found[dt.date(2023, 8, 3)].timing is None  # midnight is no hour of a report
    assert len(found) == 5
    assert {row.known_at for row in found.values()} == {NOW}


def test_a_date_that_is_fixed_and_on_the_calendar_is_one_row(live: YahooMarket, apple: FarYahoo) -> None:
    day = dt.date(2024, 8, 1)
    at = seconds(day, 16, NEW_YORK)
    apple.quotes["AAPL"] = {"earningsTimestampStart": at, "earningsTimestampEnd": at, "isEarningsDateEstimate": False}
    (row,) = [row for row in live.earnings("AAPL") if row.date >= TODAY]
    expected = EarningsDate(
        symbol="AAPL", date=day, timing="afterClose", confirmed=True, eps_estimate=1.35, known_at=NOW
    )
    assert row == expected


def test_short_interest_is_of_its_settlement(live: YahooMarket, apple: FarYahoo) -> None:
    assert isinstance(live, ShortInterestSource)
    (row,) = live.short_interest("AAPL")
    assert (row.date, row.shares_short, row.ratio, row.of_float) == (dt.date(2024, 2, 29), 120_000_000, 2.1, 0.0079)
    assert (row.prior_shares_short, row.prior_date, row.known_at) == (100_000_000, dt.date(2024, 1, 31), NOW)
    apple.infos["SPY"] = {"longName": "a fund", "sharesShort": 5}
    assert live.short_interest("SPY") == []


def test_ratings_are_known_from_their_own_time_on(live: YahooMarket, apple: FarYahoo) -> None:
    assert isinstance(live, RatingsSource)
    later, newest, oldest = live.rating_changes("AAPL")
    given = {"firm": "Wedbush", "action": "up", "rating": "Outperform", "prior_rating": "Neutral", "target": 250}
    assert newest == RatingChange(symbol="AAPL", known_at=dt.datetime(2024, 3, 11, 12, tzinfo=dt.UTC), **given)
    assert (later.firm, oldest.firm) == ("Tomorrow & Co", "Older")
    (targets,) = live.price_targets("AAPL")
    assert (targets.low, targets.mean, targets.median, targets.high) == (150, 200.5, 201, 250)
    assert (targets.analysts, targets.rating, targets.mean_rating) == (39, "buy", 2.0)


def test_insiders_and_institutions_are_one_request(live: YahooMarket, apple: FarYahoo) -> None:
    assert isinstance(live, InsiderSource)
    assert isinstance(live, HolderSource)
    rows = live.insider_trades("AAPL")
    assert [(str(row.date), row.side, row.shares, row.value) for row in rows] == [
        ("2024-03-01", "sell", 1000, 181_000),
        ("2024-02-01", "buy", 100, 17_000),
        ("2024-01-15", None, 50, 0),
        ("2023-01-15", None, 70, None),
    ]
    (holder,) = live.holders("AAPL")
    assert (holder.holder, holder.date, holder.of_outstanding, holder.change) == (
        "Vanguard Group Inc",
        dt.date(2023, 12, 31),
        0.0843,
        -0.0012,
    )
    assert apple.asked_for("/v10/finance/quoteSummary/AAPL") == 1


KINDS = ("earnings", "short_interest", "rating_changes", "price_targets", "insider_trades", "holders")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fund_has_no_rows_and_an_unknown_symbol_is_named(live: YahooMarket, far: FarYahoo, kind: str) -> None:
    far.infos["SPY"] = {"longName": "a fund"}
    assert getattr(live, kind)("SPY") == []
    if kind == "earnings":  # the calendar's page is the same for a company without dates
        assert live.earnings("NOPE") == []
        return
    with pytest.raises(MarketError, match="unknown symbol NOPE"):
        getattr(live, kind)("NOPE")


@pytest.mark.parametrize("kind", KINDS)
def test_none_of_a_past_day(market: YahooMarket, apple: FarYahoo, kind: str) -> None:
    with pytest.raises(NotConfigured, match=r"not available in a replay: Yahoo has the .* of now alone"):
        getattr(market, kind)("AAPL")
    assert apple.asked == []


UNREAD = {"error": (500, "down"), "html": (200, "<html>"), "half": (200, '{"quoteSummary": {"result": [{')}
# Of an empty answer yfinance makes an `info` without fields, as of a fund.
EMPTY = (200, '{"quoteSummary": {}}')


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        *((kind, answer) for kind in KINDS[1:] for answer in UNREAD.values()),
        *((kind, EMPTY) for kind in ("rating_changes", "insider_trades", "holders")),
    ],
)
def test_an_answer_that_cannot_be_read_is_no_absence(
    live: YahooMarket, apple: FarYahoo, kind: str, answer: tuple[int, str]
) -> None:
    apple.trouble["/v10/finance/quoteSummary"] = answer
    with pytest.raises(MarketUnavailable, match="AAPL"):
        getattr(live, kind)("AAPL")
    del apple.trouble["/v10/finance/quoteSummary"]
    assert getattr(live, kind)("AAPL")


def test_kept_rows_are_plain_json(live: YahooMarket, apple: FarYahoo, tmp_path: Path) -> None:
    rows = live.insider_trades("AAPL")
    (file,) = (tmp_path / "cache" / "yahoo").glob("owned-AAPL.json")
    assert json.loads(file.read_text())["value"]["trades"][0]["insider"] == "COOK TIMOTHY D"
    assert build_yahoo(tmp_path, NowClock(), apple.session()).insider_trades("AAPL") == rows
    assert apple.asked_for("/v10/finance/quoteSummary/AAPL") == 1
