"""What TradingAgents is answered depends on nothing after the market's now, whatever dates a model asks for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chordesk.agents.graphs.tradingagents.data import EMPTY, INDICATORS, MISSING, DeskData
from chordesk.models.market import Headline
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.files.data_folder import files_data
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.registry import ToolContext
from tests.examples import examples
from tests.tools.market.far_market import FarMarket
from tests.tools.market.files import folders
from tests.tools.market.test_no_look_ahead import future_removed, future_spoiled, market_on, moments

QUIET = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = ("IBM", "AAPL", "KO", "QEP", "XTO", "NOPE", "bad name", "")
TEXTS = ("2010-03-10", "2010-12-31", "2031-01-01", "1999-01-01", "tomorrow", "")


@pytest.fixture(scope="session")
def own(replayed: ReplayData, tmp_path_factory: pytest.TempPathFactory) -> ReplayData:
    """Some names of the replay as a folder of own data."""
    home = tmp_path_factory.mktemp("own")
    folder = folders.write_replayed(home / "data", replayed, ["AAPL", "IBM", "KO"])
    return files_data(folders.settings(home, folder))


@pytest.fixture(params=["replayed", "own"])
def past(request: pytest.FixtureRequest) -> ReplayData:
    found: ReplayData = request.getfixturevalue(request.param)
    return found


def data_on(market: MarketData, home: Path) -> DeskData:
    return DeskData(ToolContext(market, market.clock, None, Settings(home=home), "paper", None))


def answers(data: DeskData, symbol: str, first: str, last: str) -> dict[str, str]:
    """Everything that TradingAgents can ask."""
    asked: dict[str, tuple[object, ...]] = {
        "get_stock_data": (symbol, first, last),
        "get_fundamentals": (symbol, last),
        "get_balance_sheet": (symbol, "annual", last),
        "get_cashflow": (symbol, "annual", last),
        "get_income_statement": (symbol, "annual", last),
        "get_news": (symbol, first, last),
        "get_global_news": (last, 7, 5),
        "get_insider_transactions": (symbol,),
        "get_macro_indicators": ("cpi", last, 365),
        "get_prediction_markets": ("rates", 5),
        "get_snapshot": (symbol, last, 30),
        "get_anything_new": (symbol,),
    }
    found = {name: data.answer(name, *given) for name, given in asked.items()}
    found |= {name: data.answer("get_indicators", symbol, name, last, 400) for name in INDICATORS}
    return {**found, "identity": str(data.identity(symbol)), "has_news": str(data.has_news(symbol))}


@QUIET
@given(choice=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_answer_depends_on_a_later_bar(past: ReplayData, tmp_path: Path, choice: st.DataObject, seed: int) -> None:
    today = choice.draw(st.sampled_from(past.sessions))
    symbol, first, last = (choice.draw(st.sampled_from(one)) for one in (NAMES, TEXTS, TEXTS))
    clock = ReplayClock(today)
    true = answers(data_on(market_on(past, clock), tmp_path), symbol, first, last)
    for other in (future_spoiled(past, today, seed), future_removed(past, today)):
        assert answers(data_on(market_on(other, clock), tmp_path), symbol, first, last) == true
    for name, text in true.items():
        if not text.startswith(EMPTY):  # those repeat what was asked for
            assert all(moment <= clock.now() for moment in moments(text)), name


def test_a_planted_bar_shows_a_day_later(replayed: ReplayData, tmp_path: Path) -> None:
    """The comparison above can fail."""
    today, tomorrow = dt.date(2010, 3, 1), dt.date(2010, 3, 2)
    spoiled = future_spoiled(replayed, today, 7)
    given = ("IBM", "2010-01-04", "2031-01-01")
    true = answers(data_on(market_on(replayed, ReplayClock(tomorrow)), tmp_path), *given)
    wrong = answers(data_on(market_on(spoiled, ReplayClock(tomorrow)), tmp_path), *given)
    known = {name for name in INDICATORS if not true[name].startswith(EMPTY)}
    assert len(known) >= len(INDICATORS) - 1  # the data are too short for the longest average
    assert {name for name in true if true[name] != wrong[name]} == {"get_stock_data", "get_snapshot", *known}


def test_no_headline_is_of_the_future(tmp_path: Path) -> None:
    market = FarMarket()
    now = market.clock.now()
    times = {
        "old": now - dt.timedelta(days=40),
        "fresh": now - dt.timedelta(days=1),
        "next": now + dt.timedelta(days=1),
    }
    market.news = {
        "A": [Headline(symbol="A", headline=name, source="wire", published_at=at) for name, at in times.items()]
    }
    data = data_on(market, tmp_path)
    text = data.answer("get_news", "A", str(data.today - dt.timedelta(days=7)), "2099-01-01")
    assert '"fresh" ("wire")' in text
    assert "next" not in text
    assert "old" not in text
    assert data.has_news("A")
    assert data.answer("get_news", "B", "2000-01-01", "2099-01-01").startswith(MISSING)
