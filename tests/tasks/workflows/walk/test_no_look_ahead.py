"""Nothing of a later day is in anything that an earlier day's runs saw or wrote: a planted bar, a planted headline."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlmodel import col, select

from chordesk.agents.roles import ROLES
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Decision, Report, Run, ScreenHit, Step, ToolCall, Turn, Verdict
from chordesk.models.tables.runtime import EventBatch
from chordesk.tasks.workflows.backtest import open_backtest
from chordesk.tools.registry import ToolContext
from tests.stack import processes
from tests.tasks.workflows.walk.kit import WalkingDesk
from tests.tools.market.files.folders import market as market_on
from tests.tools.market.files.folders import sessions, walk, write_table

DAYS = sessions("2010-01-04", 90)
PLANTED = DAYS[80]
VISITED = DAYS[77:83]
SYMBOLS = ("AAA", "BBB", "CCC", "DDD")
MARKER = "987654.25"
HEADLINE = "PLANTEDHEADLINE"
TABLES: tuple[Any, ...] = (ToolCall, Turn, Report, Verdict, ScreenHit, Decision, Step, EventBatch)
# Those that need rows of a desk, or another program, are left to the walks themselves.
TOOLS = {spec.name: spec for role in ROLES.values() for spec in role.tools if spec.data}
HOME = Path(tempfile.gettempdir()) / "chordesk-no-look-ahead"


def write_folder(folder: Path) -> Path:
    """Write four names with a close, a high and a headline of one day that no day before it may show."""
    for number, symbol in enumerate(SYMBOLS):
        rows = [list(row) for row in walk(DAYS, 100.0 + 10 * number)]
        planted = rows[DAYS.index(PLANTED)]
        planted[2], planted[4] = float(MARKER), float(MARKER)  # its open is what the orders of the day before fill at
        write_table(folder / "bars" / f"{symbol}.csv", ("date", "open", "high", "low", "close", "volume"), rows)
    news = [(symbol, f"{PLANTED}T10:00:00-05:00", f"{HEADLINE} of {symbol}", "a wire") for symbol in SYMBOLS]
    write_table(folder / "headlines.csv", ("symbol", "time", "headline", "source"), news)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(Path(tmp_path_factory.mktemp("planted")) / "data")


def planted_in(text: str) -> bool:
    return HEADLINE in text or any(form in text for form in (MARKER, "987654", "987,654"))


@pytest.fixture(scope="module")
def walker(folder: Path) -> Iterator[WalkingDesk]:
    first = str(DAYS[0])
    with processes(DESK_MARKET="files", DESK_DATA=str(folder), DESK_REPLAY_DATE=first) as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield WalkingDesk(found)


def written(desk: WalkingDesk, run: Run) -> str:
    """Everything that is stored of a run as one text: questions, the answers of tools, and what came of them."""
    parts = []
    with desk.store.read() as session:
        turns = session.exec(select(Turn.id).where(Turn.run_id == run.id)).all()
        for table in TABLES:
            which = col(ToolCall.turn_id).in_(turns) if table is ToolCall else col(table.run_id) == run.id
            parts += [str(row.model_dump()) for row in session.exec(select(table).where(which)).all()]
        parts.append(str(run.model_dump()))
    return "\n".join(parts)


@pytest.mark.long
@pytest.mark.parametrize("memory", ["off", "on"])
def test_no_run_of_an_earlier_day_shows_a_later_bar_or_headline(walker: WalkingDesk, memory: str) -> None:
    run = open_backtest(walker.processes.app, VISITED[0], VISITED[-1], universe=",".join(SYMBOLS), memory=memory)
    done = walker.ended(run.id)
    assert done.state == RunState.DONE, done.notes
    found: dict[bool, set[dt.date]] = {True: set(), False: set()}
    for kind in ("screen", "trade"):
        for each in walker.runs(done, kind):
            day = each.market_now.astimezone(dt.UTC).date()
            found[planted_in(written(walker, each))].add(day)
    early = {day for day in VISITED if day < PLANTED}
    assert early <= found[False]
    assert not found[True] & early, "a later day was seen"
    assert found[True] >= {PLANTED}, "the plant is found where it may be seen"


@settings(deadline=None)
@given(day=st.sampled_from(DAYS[60:]), symbol=st.sampled_from(SYMBOLS), name=st.sampled_from(sorted(TOOLS)))
def test_no_tool_shows_it_before_its_day(folder: Path, day: dt.date, symbol: str, name: str) -> None:
    market = market_on(HOME, folder, day)
    own = Settings(home=HOME, market="files", data=folder, replay_date=day)
    context = ToolContext(market=market, clock=market.clock, store=None, settings=own, account="paper", run_id=None)
    answer = answered(context, name, symbol)
    if day < PLANTED:
        assert not planted_in(answer)
    elif name == "news_list" and (day - PLANTED).days < 3:
        assert planted_in(answer)


def answered(context: ToolContext, name: str, symbol: str) -> str:
    """Return a tool's answer on a symbol as text; what it refuses is a text too."""
    spec = TOOLS[name]
    fields = spec.arguments.model_fields
    asked: dict[str, Any] = (
        {"symbols": [symbol]} if "symbols" in fields else {"symbol": symbol} if "symbol" in fields else {}
    )
    try:
        return str(spec.function(context, spec.arguments.model_validate(asked)))
    except (DeskError, ValidationError) as error:
        return str(error)
