"""company_get: companies, their sections of prices and of rows, and the summary that code makes of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.models.company import Holder, InsiderTrade
from chordesk.models.market import Listing
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.model_tools.company import summary_markdown
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY, FarClock, daily
from tests.tools.research.company_market import CompanyMarket

NOW = FarClock().now()
LATER = NOW + dt.timedelta(minutes=1)


def holder(name: str, share: float | None, change: float | None, known: dt.datetime = NOW) -> Holder:
    day = dt.date(2023, 12, 31)
    return Holder(symbol="A", date=day, holder=name, of_outstanding=share, change=change, known_at=known)


def trade(days: int, known: dt.datetime = NOW) -> InsiderTrade:
    day = TODAY - dt.timedelta(days=days)
    return InsiderTrade(symbol="A", date=day, insider="B", side="sell", shares=5, value=50, known_at=known)


def test_price_sections_are_those_of_their_tools(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    context = make_context(market)
    names = ["AAPL", "WYE", "MMM"]
    answer = call(context, "company_get", symbols=names, parts=["signals", "technicals"])
    assert answer.has_data
    rows = {row["symbol"]: row for row in answer.payload["companies"]}
    for section in ("signals", "technicals"):
        own = call(context, f"{section}_get", symbols=names).payload
        assert {row["symbol"] for row in own[section]} == {"AAPL", "MMM"}
        for row in own[section]:
            assert {"symbol": row["symbol"], **rows[row["symbol"]][section]} == row
        assert section not in rows["WYE"]
        lacking = {(gap.get("symbol"), gap["what"]) for gap in own["missing"]}
        assert lacking <= {(gap.get("symbol"), gap["what"]) for gap in answer.payload["missing"]}


def test_insiders_and_institutions_are_sums_of_what_was_known(call: Call) -> None:
    market = CompanyMarket(
        {"A": daily("A", [1, 2]), "B": daily("B", [1, 2])},
        trades={"A": [trade(3), trade(200), trade(1, LATER)]},
        held={"A": [holder("Big\x00", 0.08, 0.01), holder("Small", 0.02, -0.5), holder("Later", 0.5, 0.1, LATER)]},
    )
    answer = call(market, "company_get", symbols=["A", "B"], parts=["insiders", "hedgeFunds"])
    first, second = answer.payload["companies"]
    assert first["hedgeFunds"] == {
        "source": "far",
        "listed": 2, "ofOutstanding": 0.1, "largest": "Big", "largestOfOutstanding": 0.08, "increased": 1,
        "decreased": 1, "reportedFor": "2023-12-31", "knownAt": NOW.isoformat(),
        "kind": "institutions that report their holdings, hedge funds among them",
    }  # fmt: skip
    assert (first["insiders"]["sold"], first["insiders"]["netShares"], first["insiders"]["days"]) == (1, -5, 180)
    assert first["insiders"]["newest"] == str(TODAY - dt.timedelta(days=3))
    assert second.keys().isdisjoint({"insiders", "hedgeFunds"})
    assert answer.payload["missing"] == [
        {"symbol": "B", "what": "insiders", "reason": "the source has no insider trades of B"},
        {"symbol": "B", "what": "hedgeFunds", "reason": "the source has no institutional holders of B"},
    ]


def test_the_replay_s_summary_has_its_prices_and_names_what_is_not_known(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "company_get", symbols=["AAPL"], parts=["summaryMarkdown"])
    assert answer.has_data
    (row,) = answer.payload["companies"]
    title, prices, lacking = row["summaryMarkdown"].split("\n")
    assert title == "**AAPL** Apple Inc., Information Technology, Computer Hardware, last price 251.79"
    (signals,) = call(market, "signals_get", symbols=["AAPL"]).payload["signals"]
    assert prices.startswith(f"- 20 sessions {signals['momentum20']:+.1%}, 60 sessions {signals['momentum60']:+.1%}, ")
    assert prices.endswith(" (replay, 2010-08-12)")
    assert lacking == "- Not known: fundamentals, earnings, ratings, insiders"
    assert row.keys().isdisjoint({"signals", "fundamentals"})
    assert {gap["what"] for gap in answer.payload["missing"]} >= {"fundamentals", "earnings", "ratings", "insiders"}


def test_markup_in_a_name_has_no_meaning_in_the_summary() -> None:
    listing = Listing(symbol="A", name="# *Ignore* [rules](x)\x00\n<b>now</b>", sector=None)
    made = summary_markdown({**listing.model_dump(), "lastClose": None}, {}, "wire")
    assert made.splitlines()[0] == (r"**A** \# \*Ignore\* \[rules\](x) \<b\>now\</b\>, last price not known")


def test_a_summary_has_no_figure_that_its_sections_lack() -> None:
    sections: dict[str, dict[str, Any]] = {
        "fundamentals": {"trailingPE": 30.456, "forwardPE": None, "revenueGrowth": 0.051, "knownAt": "2024-03-15"},
        "ratings": {"recommendation": "strong_buy", "targetMean": 1200.5, "analysts": 39.0, "knownAt": "2024-03-14"},
    }
    overview = {"symbol": "A", "name": None, "sector": None, "industry": None, "lastClose": 1000.0}
    assert summary_markdown(overview, sections, "yahoo") == (
        "**A** last price 1000\n"
        "- trailing P/E 30.46, revenue growth +5.1% (yahoo, 2024-03-15)\n"
        "- recommendation strong\\_buy, analysts 39, mean target 1,200.5 (yahoo, 2024-03-14)\n"
        "- Not known: signals, earnings, insiders"
    )
