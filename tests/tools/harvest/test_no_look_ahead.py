"""No harvester knows anything later than now: no finding depends on a later bar, headline or announcement."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chordesk.models.board import Harvest
from chordesk.models.database.store import Store
from chordesk.models.market import Headline
from chordesk.models.tables.orders import Account, Position
from chordesk.tools.board.registry import HARVESTERS, Tombstone
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.registry import ToolContext
from tests.examples import examples
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, ended
from tests.tools.harvest.test_events import Reporting, report
from tests.tools.market.test_no_look_ahead import future_removed, future_spoiled

QUIET = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SYMBOLS = ["AAPL", "IBM", "XOM", "QEP", "XTO", "NEE", "NOPE"]


def every(tool: ToolContext, symbols: list[str]) -> dict[str, Harvest | Tombstone]:
    context = board(tool, *symbols)
    found = {name: ended(name, context) for name in HARVESTERS}
    assert not [one for one in found.values() if isinstance(one, Tombstone)], found
    return found


@pytest.fixture
def holding(store: Store, data: ReplayData) -> Store:
    """A database with an account that holds two names since the first session."""
    with store.session() as session:
        session.add(Account(name="paper", cash=1000.0))
        session.flush()
        opened = ReplayClock(data.sessions[0]).now()
        for symbol in ("AAPL", "XTO"):
            session.add(Position(account="paper", symbol=symbol, quantity=10, average_cost=1, filled_at=opened))
    return store


@pytest.mark.long
@QUIET
@given(choice=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_finding_depends_on_a_later_bar(
    data: ReplayData, holding: Store, make_context: MakeContext, choice: st.DataObject, seed: int
) -> None:
    today = choice.draw(st.sampled_from(data.sessions))
    symbols = choice.draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=7, unique=True))
    clock = ReplayClock(today)
    true = every(make_context(ReplayMarket(data, clock), holding), symbols)
    for other in (future_spoiled(data, today, seed), future_removed(data, today)):
        assert every(make_context(ReplayMarket(other, clock), holding), symbols) == true


def test_the_spoiled_future_would_show(data: ReplayData, holding: Store, make_context: MakeContext) -> None:
    """The comparison above can fail: a day later the same rows are the present."""
    today, tomorrow = dt.date(2010, 3, 1), ReplayClock(dt.date(2010, 3, 2))
    true, spoiled = (
        every(make_context(ReplayMarket(rows, tomorrow), holding), ["AAPL", "IBM", "XOM"])
        for rows in (data, future_spoiled(data, today, 7))
    )
    differing = {name for name in HARVESTERS if true[name] != spoiled[name]}
    assert differing == {"momentum", "reversal", "volatility", "portfolio", "factors", "temporal"}


@QUIET
@given(hours=st.lists(st.integers(-2000, 2000), max_size=12), known=st.integers(-40, 40))
def test_no_finding_shows_a_later_headline_or_announcement(
    make_context: MakeContext, hours: list[int], known: int
) -> None:
    market = Reporting()
    now = market.clock.now().astimezone(dt.UTC)
    times = [now + dt.timedelta(hours=hour) for hour in hours]
    market.news = {"A": [Headline(symbol="A", headline=f"{at}", source="wire", published_at=at) for at in times]}
    announced = now + dt.timedelta(days=known)
    market.dates = {"A": [report("A", "2024-03-20").model_copy(update={"known_at": announced})]}
    cut = dataclasses.replace(
        market,
        news={"A": [row for row in market.news["A"] if row.published_at <= now]},
        dates={"A": [row for row in market.dates["A"] if row.known_at <= now]},
    )
    for tool in ("headlines", "events"):
        assert ended(tool, board(make_context(market), "A")) == ended(tool, board(make_context(cut), "A"))


@pytest.mark.parametrize("day", ["2010-03-01", "2010-08-12", "2009-11-27"])
def test_a_finding_of_bars_is_as_of_the_replay_s_now_or_the_early_close(
    data: ReplayData, make_context: MakeContext, day: str
) -> None:
    clock = ReplayClock(dt.date.fromisoformat(day))
    found = ended("reversal", board(make_context(ReplayMarket(data, clock)), "IBM"))
    assert isinstance(found, Harvest)
    hour = dt.time(13, 0) if day == "2009-11-27" else dt.time(15, 55)
    assert {one.as_of.astimezone(clock.now().tzinfo).time() for one in found.findings} == {hour}
