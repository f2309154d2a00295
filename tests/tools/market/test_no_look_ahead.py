"""No tool knows anything later than now: no later date in an answer, and no answer that depends on a later row."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import re
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chordesk.agents.roles import TOOLS
from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.market import Headline
from chordesk.models.tables.orders import Account, Position
from chordesk.models.text import NEW_YORK
from chordesk.tools.charts.study import OVERLAYS
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.files.data_folder import FilesData, files_data
from chordesk.tools.market.files.market import FilesMarket
from chordesk.tools.market.replay.market import Columns, ReplayData, ReplayMarket
from chordesk.tools.model_tools.company import Part
from chordesk.tools.registry import ToolContext
from tests.examples import examples
from tests.tools.conftest import MakeContext, every_tool
from tests.tools.ledger_rows import add_candidate, add_report, add_run, add_verdict
from tests.tools.market.far_market import FarMarket
from tests.tools.market.files import folders

_DATE = re.compile(r"(?:19|20)\d\d-\d\d-\d\d(?:T[0-9:.]+(?:Z|[+-]\d\d:\d\d)?)?")
QUIET = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


CHARTS = ("price_history_get", "chart_study_get", "chart_render")
# They rest on a run and its verdicts, and see of the market its clock and its quotes alone, as portfolio_get does.
ORDER_TOOLS = {"orders_preview"}


def cases(symbols: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Calls that reach every tool, each with arguments that make it say the most."""
    sections = list(get_args(Part))
    return [
        ("universe_list", {"limit": 250, "offset": 250}),
        ("universe_list", {"limit": 250}),
        ("sp500_movers", {"direction": "up", "limit": 100}),
        ("sp500_movers", {"direction": "down", "limit": 100}),
        ("company_get", {"symbols": symbols, "parts": sections}),
        ("technicals_get", {"symbols": symbols}),
        ("signals_get", {"symbols": symbols}),
        ("news_list", {"symbols": symbols}),
        ("portfolio_get", {}),
        ("report_latest", {"symbols": symbols}),
        ("price_history_get", {"symbols": symbols, "sessions": 40}),
        ("price_history_get", {"symbols": symbols, "sessions": 250, "interval": "week"}),
        ("chart_study_get", {"symbols": symbols}),
        ("chart_study_get", {"symbols": symbols, "sessions": 250, "interval": "week", "lookback": 2}),
        ("chart_render", {"symbols": symbols[:4], "overlays": list(OVERLAYS)}),
        ("option_chain_get", {"symbols": symbols[:10]}),
        ("option_greeks_get", {"contracts": ["AAPL120121P00250000"]}),
        ("volatility_get", {"symbols": symbols[:10]}),
        ("options_unusual", {"symbols": symbols[:10]}),
        ("page_read", {"url": "https://www.sec.gov/today"}),
        ("news_index", {"symbols": symbols, "days": 60}),
        ("earnings_dates", {"symbols": symbols, "limit": 40}),
        ("short_interest", {"symbols": symbols}),
        ("analyst_ratings", {"symbols": symbols[:30], "days": 1000}),
        ("sec_filings", {"symbols": symbols[:30], "days": 1000}),
        ("insider_trades", {"symbols": symbols[:30], "days": 1000}),
    ]


def answers(context: ToolContext, symbols: list[str]) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        tools, answered = every_tool(context), {}
        for tool, arguments in cases(symbols):
            answer = await tools.call(tool, arguments)
            assert answer.success, answer.payload
            picture = hashlib.sha256(answer.image.data).hexdigest() if answer.image is not None else ""
            answered[f"{tool} {arguments}"] = answer.text() + picture
        return answered

    return asyncio.run(ask())


def moments(text: str) -> Iterator[dt.datetime]:
    """Every date and time in the text; a bare date stands for its start."""
    for found in _DATE.findall(text):
        moment = dt.datetime.fromisoformat(found)
        yield moment if moment.tzinfo else moment.replace(tzinfo=NEW_YORK)


def future_spoiled(data: ReplayData, today: dt.date, seed: int) -> ReplayData:
    """The same data with every row after today replaced by nonsense."""
    rng = np.random.default_rng(seed)
    later = data.columns.day > today.toordinal()
    figures = {}
    for name in ("open", "high", "low", "close", "volume"):
        values = getattr(data.columns, name).copy()
        values[later] = rng.uniform(0.01, 9999, int(later.sum()))
        figures[name] = values
    return data.with_columns(data.columns._replace(**figures))


def future_removed(data: ReplayData, today: dt.date) -> ReplayData:
    """The same data as if the file ended today."""
    columns = data.columns
    kept = columns.day <= today.toordinal()
    owner = np.repeat(np.arange(len(columns.symbols)), np.diff(columns.start))[kept]
    present, first = np.unique(owner, return_index=True)
    start = np.r_[first, int(kept.sum())]
    figures = (getattr(columns, name)[kept] for name in ("day", "open", "high", "low", "close", "volume"))
    return data.with_columns(Columns(columns.symbols[present], start, *figures))


@pytest.fixture(scope="session")
def own_data(data: ReplayData, tmp_path_factory: pytest.TempPathFactory) -> FilesData:
    """Some names of the replay as a folder of own data."""
    home = tmp_path_factory.mktemp("own")
    names = [*data.symbols[::12], "AAPL", "QEP", "XTO", "DHR", "NEE"]
    folder = folders.write_replayed(home / "data", data, sorted(set(names)))
    return files_data(folders.settings(home, folder))


@pytest.fixture(params=["replay", "files"])
def past(request: pytest.FixtureRequest, data: ReplayData, own_data: FilesData) -> ReplayData:
    """The data of each market of past prices."""
    return data if request.param == "replay" else own_data


def market_on(data: ReplayData, clock: ReplayClock) -> ReplayMarket:
    return FilesMarket(data, clock) if isinstance(data, FilesData) else ReplayMarket(data, clock)


@pytest.fixture
def past_and_future(store: Store, data: ReplayData) -> Store:
    """A database that knows reports of every third session of the replay, and holds two names."""
    with store.session() as session:
        session.add(Account(name="paper", cash=1000.0))
        session.flush()
        opened = ReplayClock(data.sessions[0]).now()
        for symbol in ("AAPL", "XTO"):
            session.add(Position(account="paper", symbol=symbol, quantity=1, average_cost=1, filled_at=opened))
        for day in data.sessions[::3]:
            run = add_run(session, ReplayClock(day).now())
            for symbol in ("AAPL", "QEP"):
                candidate = add_candidate(session, run, symbol)
                add_report(session, run, candidate, "risk", summary=f"written for {day}")
                add_verdict(session, run, candidate, "BUY")
    return store


def any_day(data: ReplayData) -> st.SearchStrategy[dt.date]:
    return st.sampled_from(data.sessions)


def any_symbols(data: ReplayData) -> st.SearchStrategy[list[str]]:
    names = st.one_of(st.sampled_from(data.symbols), st.sampled_from(["AAPL", "QEP", "XTO", "DHR", "NEE", "NOPE"]))
    return st.lists(names, min_size=1, max_size=12, unique=True)


@settings(QUIET, max_examples=examples(15))
@given(choice=st.data())
def test_no_answer_has_a_date_after_now(
    past: ReplayData, past_and_future: Store, make_context: MakeContext, choice: st.DataObject
) -> None:
    clock = ReplayClock(choice.draw(any_day(past)))
    context = make_context(market_on(past, clock), past_and_future)
    for asked, answered in answers(context, choice.draw(any_symbols(past))).items():
        seen = list(moments(answered))
        assert clock.now() in seen, asked
        assert max(seen) <= clock.now(), asked


@pytest.mark.long
@settings(QUIET, max_examples=examples(15))
@given(choice=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_answer_depends_on_a_later_row(
    past: ReplayData, past_and_future: Store, make_context: MakeContext, choice: st.DataObject, seed: int
) -> None:
    today = choice.draw(any_day(past))
    symbols = choice.draw(any_symbols(past))
    clock = ReplayClock(today)
    true = answers(make_context(market_on(past, clock), past_and_future), symbols)
    for other in (future_spoiled(past, today, seed), future_removed(past, today)):
        assert answers(make_context(market_on(other, clock), past_and_future), symbols) == true


@QUIET
@given(minutes=st.lists(st.integers(-100_000, 100_000), max_size=30), limit=st.integers(1, 25))
@example(minutes=[-7_976], limit=1)  # 02:59 on the night New York's clocks go forward
def test_no_headline_is_of_the_future(make_context: MakeContext, minutes: list[int], limit: int) -> None:
    market = FarMarket()
    # In UTC: minutes added to New York's wall clock can name an hour that never was.
    now = market.clock.now().astimezone(dt.UTC)
    times = [now + dt.timedelta(minutes=minute) for minute in minutes]
    market.news = {
        "A": [
            Headline(symbol="A", headline=f"word{at}", source="wire", published_at=time)
            for at, time in enumerate(times)
        ]
    }
    answer = asyncio.run(every_tool(make_context(market)).call("news_list", {"symbols": ["A"], "limit": limit}))
    found = [dt.datetime.fromisoformat(row["publishedAt"]) for row in answer.payload["headlines"]]
    assert found == sorted((time for time in times if time <= now), reverse=True)[:limit]


def test_the_spoiled_future_would_show(data: ReplayData, make_context: MakeContext, past_and_future: Store) -> None:
    """The comparison above can fail: a day later the same rows are the present, and the answers differ."""
    today, tomorrow = dt.date(2010, 3, 1), dt.date(2010, 3, 2)
    spoiled = future_spoiled(data, today, 7)
    symbols = ["AAPL", "MMM"]
    at = ReplayClock(tomorrow)
    true = answers(make_context(ReplayMarket(data, at), past_and_future), symbols)
    wrong = answers(make_context(ReplayMarket(spoiled, at), past_and_future), symbols)
    differing = {asked.split()[0] for asked in true if true[asked] != wrong[asked]}
    of_prices = {"sp500_movers", "company_get", "technicals_get", "signals_get", "portfolio_get", "volatility_get"}
    assert differing == {*of_prices, *CHARTS}


def test_every_tool_is_asked() -> None:
    """Tools of features are held to their clock in the tests of each."""
    of_features = {features.load(place).name for one in features.in_force() for place in one.tools}
    assert {tool for tool, _ in cases(["AAPL"])} == set(TOOLS) - ORDER_TOOLS - of_features
