"""What a tool says is missing is missing, whatever the market: no other tool or section has it; and what none has, each
says is missing."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chordesk.models.company import EarningsDate, InsiderTrade, ShortInterest, Statement
from chordesk.models.market import Headline
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.market.yahoo.market import YahooMarket
from chordesk.tools.registry import ToolContext
from tests.examples import examples
from tests.tools.conftest import MakeContext, every_tool
from tests.tools.market.far_market import TODAY, FarClock, daily
from tests.tools.market.files import folders
from tests.tools.market.files.test_chains import COLUMNS, DAYS, PUT
from tests.tools.market.files.test_chains import TODAY as QUOTED
from tests.tools.market.yahoo.conftest import far
from tests.tools.market.yahoo.conftest import market as yahoo
from tests.tools.research.company_market import CompanyMarket

__all__ = ["far", "yahoo"]


class Said(NamedTuple):
    """Where a tool's answer has a datum of a symbol. rows: the list; field: of its rows, by default all of a row; what:
    its name among the missing."""

    tool: str
    rows: str
    what: str
    field: str = ""


OVERVIEW = "company_get"
# The same datum, in each tool that has it.
SAME: Mapping[str, tuple[Said, ...]] = {
    "bars": (
        Said("signals_get", "signals", "bars"),
        Said("technicals_get", "technicals", "bars"),
        Said("price_history_get", "histories", "bars"),
        Said("chart_study_get", "studies", "bars"),
        Said(OVERVIEW, "companies", "bars", "signals"),
        Said(OVERVIEW, "companies", "bars", "technicals"),
    ),
    "earnings": (
        Said(OVERVIEW, "companies", "earnings", "earnings"),
        Said("earnings_dates", "earnings", "earnings dates"),
    ),
    "options": (Said(OVERVIEW, "companies", "options", "options"), Said("option_chain_get", "chains", "option chain")),
    "insiders": (
        Said(OVERVIEW, "companies", "insiders", "insiders"),
        Said("insider_trades", "insiders", "insider trades"),
    ),
    "headlines": (
        Said("news_list", "headlines", "headlines"),
        Said("news_index", "index", "headlines"),
        Said(OVERVIEW, "companies", "news", "news"),
    ),
    "shorts": (
        Said("short_interest", "shortInterest", "short interest"),
        Said(OVERVIEW, "companies", "shortInterest", "shortInterest"),
    ),
    "statements": (
        Said(OVERVIEW, "companies", "statements", "statements"),
        Said(OVERVIEW, "companies", "fundamentals", "fundamentals"),
    ),
}
# Of the sources that these are read from alone: the reason is the same in each tool.
ONE_REASON = ("earnings", "options", "insiders", "headlines", "shorts")
ASKED: Mapping[str, dict[str, Any]] = {
    OVERVIEW: {
        "parts": [
            *("signals", "technicals", "earnings", "options", "insiders"),
            *("news", "shortInterest", "statements", "fundamentals"),
        ]
    },
    "earnings_dates": {"limit": 40},
    "insider_trades": {"days": 1000},
    "news_index": {"days": 60},
    "option_chain_get": {},
}


class Answers:
    """What each tool of SAME answers of these symbols."""

    def __init__(self, context: ToolContext, symbols: list[str]) -> None:
        self.symbols = set(symbols)
        names = dict.fromkeys(one.tool for group in SAME.values() for one in group)
        self.of = asyncio.run(self._ask(context, {name: {"symbols": symbols, **ASKED.get(name, {})} for name in names}))

    async def _ask(self, context: ToolContext, calls: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        tools = every_tool(context)
        return {name: (await tools.call(name, arguments)).payload for name, arguments in calls.items()}

    def have(self, one: Said) -> set[str]:
        return {row["symbol"] for row in self.of[one.tool][one.rows] if not one.field or one.field in row}

    def missing(self, one: Said) -> set[str]:
        gaps = [gap for gap in self.of[one.tool]["missing"] if gap["what"] == one.what]
        return self.symbols if any("symbol" not in gap for gap in gaps) else {gap["symbol"] for gap in gaps}

    def reasons(self, one: Said) -> set[str]:
        """Return why the tool has the datum of no symbol at all."""
        return {
            gap["reason"] for gap in self.of[one.tool]["missing"] if gap["what"] == one.what and "symbol" not in gap
        }

    def unknown(self, one: Said) -> set[str]:
        """Return the symbols of which the tool knows nothing at all, which is said once."""
        rows = {row["symbol"] for row in self.of[one.tool][one.rows]}
        return {gap["symbol"] for gap in self.of[one.tool]["missing"] if "symbol" in gap} - rows


def check(context: ToolContext, symbols: list[str]) -> None:
    answers = Answers(context, symbols)
    for datum, tools in SAME.items():
        for one in tools:
            have, missing = answers.have(one), answers.missing(one)
            assert have.isdisjoint(missing), (datum, one)
            assert have | missing | answers.unknown(one) == set(symbols), (datum, one, answers.of[one.tool]["missing"])
            for other in tools:
                assert missing.isdisjoint(answers.have(other)), (datum, one, other)
        if datum in ONE_REASON:
            assert len(set().union(*(answers.reasons(one) for one in tools))) <= 1, (datum, tools)
    require_agreement(answers.of)


def require_agreement(of: Mapping[str, Any]) -> None:
    """What the record of a company says of its rows is what the tool that lists them says."""
    records = {row["symbol"]: row for row in of[OVERVIEW]["companies"]}
    for row in of["earnings_dates"]["earnings"]:
        assert records[row["symbol"]]["earnings"]["earningsDate"] == (row["next"] or {}).get("date"), row
    for row in of["news_index"]["index"]:
        assert records[row["symbol"]]["news"]["newest"] == row["newest"], row
    for row in of["insider_trades"]["insiders"]:
        assert records[row["symbol"]]["insiders"]["newest"] == row["trades"][0]["date"], row
    for row in of["short_interest"]["shortInterest"]:
        own = records[row["symbol"]]["shortInterest"]
        assert (own["date"], own["sharesShort"]) == (row["date"], row["sharesShort"]), row


def own(tmp_path: Path, *files: str) -> MarketData:
    folder = tmp_path / "own"
    folders.write_table(folder / "bars" / "MSFT.csv", folders.HEADER, folders.walk(DAYS, 356.77))
    folders.write_table(folder / "bars" / "IBM.csv", folders.HEADER, folders.walk(DAYS[:3], 20))
    if "chains" in files:
        folders.write_table(folder / "chains.csv", COLUMNS, [PUT])
    if "earnings" in files:
        header = ("Symbol", "Date", "Known At")
        folders.write_table(folder / "earnings.csv", header, [("MSFT", "2026-04-20", "2026-03-20")])
    if "statements" in files:
        header = ("Symbol", "Period End", "Filed", "Item", "Value")
        rows = [
            ("MSFT", "2025-12-31", "2026-01-28", "Revenue", 5e9),
            ("IBM", "2025-12-31", "2026-05-28", "Revenue", 5e9),
        ]
        folders.write_table(folder / "statements.csv", header, rows)
    if "headlines" in files:
        header = ("Symbol", "Published", "Title")
        folders.write_table(folder / "headlines.csv", header, [("MSFT", "2026-03-26T10:00:00Z", "A title")])
    return folders.market(tmp_path, folder, QUOTED)


@pytest.mark.parametrize(
    "files", [(), ("chains",), ("earnings", "headlines"), ("chains", "earnings", "headlines", "statements")]
)
def test_of_own_data(tmp_path: Path, make_context: MakeContext, files: tuple[str, ...]) -> None:
    check(make_context(own(tmp_path, *files)), ["MSFT", "IBM", "NOPE"])


def test_of_the_replay(data: ReplayData, make_context: MakeContext) -> None:
    check(make_context(ReplayMarket(data, ReplayClock(dt.date(2010, 8, 12)))), ["AAPL", "XTO", "WYE", "NOPE"])


def test_of_yahoo(yahoo: YahooMarket, make_context: MakeContext) -> None:
    check(make_context(yahoo), ["AAPL", "NOPE"])


NOW = FarClock().now()


def report(symbol: str) -> EarningsDate:
    return EarningsDate(symbol=symbol, date=TODAY + dt.timedelta(days=9), known_at=NOW)


def trade(symbol: str) -> InsiderTrade:
    day = TODAY - dt.timedelta(days=9)
    return InsiderTrade(symbol=symbol, date=day, insider="B", side="sell", shares=5, value=50, known_at=NOW)


def short(symbol: str) -> ShortInterest:
    return ShortInterest(symbol=symbol, date=TODAY - dt.timedelta(days=9), shares_short=5, known_at=NOW)


def figure(symbol: str, days_later: int = 0) -> Statement:
    """A figure of revenue that was filed today, or is so many days later."""
    known, day = NOW + dt.timedelta(days=days_later), TODAY + dt.timedelta(days=days_later)
    period = TODAY - dt.timedelta(days=40)
    return Statement(symbol=symbol, period=period, filed=day, item="revenue", value=5, known_at=known)


def headline(symbol: str) -> Headline:
    return Headline(symbol=symbol, headline="A title", source="wire", published_at=NOW)


NAMES = ["A", "B", "C"]
SOME = st.sets(st.sampled_from(NAMES))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bars=SOME, reports=SOME, trades=SOME, news=SOME, shorts=SOME, filed=SOME)
def test_of_any_market(
    make_context: MakeContext,
    bars: set[str],
    reports: set[str],
    trades: set[str],
    news: set[str],
    shorts: set[str],
    filed: set[str],
) -> None:
    market = CompanyMarket(
        {name: daily(name, [10 + at % 7 for at in range(300)]) for name in sorted(bars)},
        news={name: [headline(name)] for name in news},
        reports={name: [report(name)] for name in reports},
        trades={name: [trade(name)] for name in trades},
        shorts={name: [short(name)] for name in shorts},
        stated={name: [figure(name), figure(name, 1)] for name in filed},
    )
    check(make_context(market), NAMES)
