"""The tools for agents of other programs: which there are, on which market and day, and that none knows a later bar."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.program_tools import READ_TOOLS, offer
from chordesk.agents.roles import TOOLS
from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, NotFound, SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.text import NEW_YORK
from chordesk.tools.ledger import ensure_account
from chordesk.tools.registry import ToolAnswer, Toolset
from tests.tools.ledger_rows import add_run

EARLY = dt.date(2010, 3, 10)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a home without a desk."""
    return Settings(home=tmp_path / "empty")


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Settings:
    """Those of a home whose desk has a database."""
    return Settings(home=tmp_path, database_url=store.url)


def a_run(store: Store, settings: Settings, **changes: Any) -> str:
    """A run of a day in March, on a desk whose own day is in August."""
    at = dt.datetime.combine(EARLY, dt.time(15, 55), NEW_YORK).astimezone(dt.UTC)
    with store.session() as session:
        return add_run(session, at, market="replay", settings=snapshot(settings), **changes).id


def call(tools: Toolset, name: str, **arguments: Any) -> ToolAnswer:
    return asyncio.run(tools.call(name, arguments))


def test_all_read_tools_are_there_without_a_desk(settings: Settings) -> None:
    tools = offer(settings)
    assert [spec.name for spec in tools.specs()] == list(READ_TOOLS)
    assert set(TOOLS) - set(READ_TOOLS) == {"orders_preview"}
    answer = call(tools, "price_history_get", symbols=["IBM"], sessions=20)
    assert answer.has_data
    assert answer.payload["asOf"].startswith("2010-08-12")
    missing = call(tools, "portfolio_get")
    assert (missing.success, missing.payload["error"]) == (
        False,
        "not available: this home has no database yet; run `desk up`, or set DESK_DATABASE_URL",
    )


def test_tools_of_a_run_have_its_day_and_no_later_bar(desk: Settings, store: Store) -> None:
    run = a_run(store, desk)
    for name in ("price_history_get", "chart_study_get"):
        of_run = call(offer(desk, run), name, symbols=["IBM", "KO"])
        assert of_run.payload["asOf"].startswith(str(EARLY))
        assert not _later(of_run.payload, EARLY)
        assert of_run.payload == call(offer(desk, day=EARLY), name, symbols=["IBM", "KO"]).payload
    assert _later(call(offer(desk), "price_history_get", symbols=["IBM"]).payload, EARLY), "the desk's own day is later"


def _later(node: Any, day: dt.date) -> list[str]:
    """Every date of an answer that is after a day."""
    if isinstance(node, dict):
        return [found for value in node.values() for found in _later(value, day)]
    if isinstance(node, list):
        return [found for value in node for found in _later(value, day)]
    text = node[:10] if isinstance(node, str) else ""
    return [text] if len(text) == 10 and text[4] == text[7] == "-" and text > str(day) else []


def test_the_dry_run_of_an_order_is_there_on_request_and_for_a_run(desk: Settings, store: Store) -> None:
    run = a_run(store, desk)
    with store.session() as session:
        ensure_account(session, "paper", desk.starting_cash)
    assert "orders_preview" not in {spec.name for spec in offer(desk, run).specs()}
    for tools in (offer(desk, run, preview=True, names=[]), offer(desk, run, names=["orders_preview"])):
        answer = call(tools, "orders_preview", symbol="IBM", action="open", quantity=1)
        assert answer.payload["cleared"] is False
        assert answer.payload["dryRun"] is True
    with pytest.raises(UsageError, match="rests on the verdicts of a run"):
        offer(desk, preview=True)


def test_a_wrong_request_is_named(desk: Settings, store: Store, settings: Settings) -> None:
    with pytest.raises(UsageError, match=r"no tool named orders_submit, sell_all.*choose among universe_list"):
        offer(settings, names=["sell_all", "orders_submit"])
    with pytest.raises(UsageError, match="names is 'news_list', a text"):
        offer(settings, names="news_list")
    with pytest.raises(NotFound, match="no run 'nope'"):
        offer(desk, "nope")
    with pytest.raises(DatabaseDown, match="desk up"):
        offer(settings, "nope")
    with pytest.raises(UsageError, match="the run or the day, not both"):
        offer(desk, a_run(store, desk), day=EARLY)
    with pytest.raises(SettingError, match="1999-01-04"):
        offer(settings, day=dt.date(1999, 1, 4))
    with pytest.raises(UsageError, match="yahoo is in real time and has no day 2010-03-10"):
        offer(settings.model_copy(update={"market": "yahoo"}), day=EARLY)


def test_a_call_ends_at_the_time_limit(settings: Settings) -> None:
    quick = settings.model_copy(update={"tool_seconds": 0.001})
    answer = call(offer(quick, names=["chart_render"]), "chart_render", symbols=["IBM", "KO", "GE", "F"])
    assert "did not answer within 0.001 s" in answer.payload["error"]
