"""The vendor `desk` in a project's registry: each place that fetches is the desk's, or the project is refused."""

from __future__ import annotations

import datetime as dt
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.graphs.tradingagents.data import DeskData
from chordesk.agents.graphs.tradingagents.provider import VENDOR, Options, answering, data_here, graph_of, install
from chordesk.models.errors import MarketError, UsageError
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.registry import ToolContext
from tests.patience import PATIENCE
from tests.suite.reached import no_request


def data_on(replayed: ReplayData, day: str, home: Path) -> DeskData:
    market = ReplayMarket(replayed, ReplayClock(dt.date.fromisoformat(day)))
    return DeskData(ToolContext(market, market.clock, None, Settings(home=home), "paper", None))


def options(home: Path) -> Options:
    return Options(home, PATIENCE)


def module(name: str) -> Any:
    return import_module(f"tradingagents.{name}")


def test_without_the_vendor_the_project_reaches_for_a_network(project: Path) -> None:
    """What the tests of a closed network would see."""
    with no_request() as reached:
        for fetch in (
            lambda: module("dataflows.interface").route_to_vendor("get_news", "IBM", "2010-01-01", "2010-01-02"),
            lambda: module("agents.utils.agent_utils").resolve_instrument_identity("IBM"),
            lambda: module("agents.analysts.sentiment_analyst").fetch_reddit_posts("IBM"),
        ):
            with pytest.raises(OSError, match=r"closed|resolve|resolution"):
                fetch()
    assert len(reached) == 3


def test_every_method_and_every_place_is_the_desks(project: Path, replayed: ReplayData, tmp_path: Path) -> None:
    install(options(tmp_path))
    interface = module("dataflows.interface")
    assert all(VENDOR in vendors for vendors in interface.VENDOR_METHODS.values())
    with no_request() as reached, answering(data_on(replayed, "2010-03-10", tmp_path)):
        for method in interface.VENDOR_METHODS:
            assert isinstance(interface.route_to_vendor(method, "IBM", "2010-03-01", "2010-03-10"), str)
        text = module("agents.utils.market_data_validation_tools").get_verified_market_snapshot.invoke(
            {"symbol": "IBM", "curr_date": "2030-01-01"}
        )
        assert text.startswith("## Verified figures of IBM at 2010-03-10")
        assert "StockTwits" in module("agents.analysts.sentiment_analyst").fetch_stocktwits_messages("IBM")
        assert "Reddit" in module("agents.analysts.sentiment_analyst").fetch_reddit_posts("IBM")
        graphs = module("graph.trading_graph")
        assert graphs.resolve_instrument_identity("IBM")["company_name"]
        assert graphs.TradingAgentsGraph._fetch_returns(None, "IBM", "2010-03-10") == (None, None, None)
        with pytest.raises(MarketError, match="TradingAgents' own prices are off"):
            module("dataflows.market_data_validator").load_ohlcv("IBM", "2010-03-10")
        with pytest.raises(MarketError, match="past the desk's market"):
            module("dataflows.live").fetch("anything")
    assert reached == []


def test_outside_of_a_run_the_vendor_answers_nothing(project: Path, tmp_path: Path) -> None:
    install(options(tmp_path))
    with pytest.raises(UsageError, match="within a run alone"):
        module("dataflows.interface").route_to_vendor("get_fundamentals", "IBM", "2010-03-10")
    with pytest.raises(UsageError):
        data_here()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("agents.analysts.sentiment_analyst", "fetch_reddit_posts"),
        ("dataflows.interface", "VENDOR_METHODS"),
        ("graph.trading_graph", "resolve_instrument_identity"),
    ],
)
def test_a_project_with_other_places_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    module("graph.trading_graph")
    monkeypatch.delattr(module(name), place)
    with pytest.raises(
        UsageError, match=rf"{name}\.{place}: what it fetches past the desk's market is not known"
    ) as caught:
        install(options(tmp_path))
    assert caught.value.remedy == "install v0.3.0, with which the desk was tested"
    if place != "VENDOR_METHODS":
        methods = module("dataflows.interface").VENDOR_METHODS
        assert not any(VENDOR in vendors for vendors in methods.values())


def test_graphs_side_by_side_have_the_markets_of_their_own_contexts(
    project: Path, replayed: ReplayData, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path)
    days = [f"2010-0{month}-1{day}" for month in (2, 3, 4, 6) for day in range(6)][:20]
    days = [day for day in days if dt.date.fromisoformat(day) in set(replayed.sessions)]
    found: dict[str, str] = {}
    together = threading.Barrier(len(days))

    def play(day: str) -> None:
        with answering(data_on(replayed, day, tmp_path)):
            graph = graph_of("IBM", settings, "gpt-5.5", ("market",), 1)
            together.wait(PATIENCE)
            state = graph.begin(day, "")
            assert state["trade_date"] == day
            found[day] = module("dataflows.interface").route_to_vendor(
                "get_stock_data", "IBM", "2010-01-04", "2030-01-01"
            )

    threads = [threading.Thread(target=play, args=(day,)) for day in days]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(days) >= 12
    assert {day: text.splitlines()[-1].split(",")[0] for day, text in found.items()} == {day: day for day in days}
    assert len(module("dataflows.config").SET) == 1
