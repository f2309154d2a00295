"""Running a harvester, the headlines of findings, and that none knows anything later than now."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chordesk.agents.board.voices import VOICES
from chordesk.models.board.forecasts import Harvest
from chordesk.models.database.store import Store
from chordesk.models.errors import MarketUnavailable, NotConfigured
from chordesk.models.market import Headline
from chordesk.models.tables.board import SignalFinding
from chordesk.models.tables.orders import Account, Position
from chordesk.tools.board.harvest_context import HarvestContext, compose
from chordesk.tools.board.harvesters import HARVESTERS, MAX_DATA_BYTES, Harvester, Tombstone, run_harvester
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.registry import ToolContext
from tests.examples import examples
from tests.tools.board.boards import board, ended, unsourced
from tests.tools.board.test_symbol_signals import Reporting, report
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarMarket
from tests.tools.market.test_no_look_ahead import future_removed, future_spoiled


def test_fields_are_filled_from_the_data() -> None:
    data = {"symbol": "IBM", "change": 0.0512, "sessions": 20, "seen": {"dates": 3}}
    made = compose("{symbol}: {change:+.1%} in {sessions} sessions, {seen[dates]} dates", data)
    assert made == "IBM: +5.1% in 20 sessions, 3 dates"
    assert unsourced(made, data) == []
    assert unsourced("IBM: +5.3% in 20 sessions", data) == ["+5.3%"]


def test_a_figure_of_the_template_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="a figure that is not in its data"):
        compose("{symbol} rose for 5 sessions", {"symbol": "IBM"})


def raising(error: BaseException) -> Harvester:
    def harvest(context: HarvestContext) -> Harvest:
        raise error

    return Harvester("broken", "Broken", harvest)


def finding(context: HarvestContext, **changes: object) -> SignalFinding:
    values = {"headline": "h", "data": {}, "source": "s", "as_of": context.tool.clock.now()}
    return SignalFinding.model_validate({**values, **changes})


def test_an_error_of_the_desk_is_the_reason(make_context: MakeContext) -> None:
    context = board(make_context(FarMarket()), "A")
    away = run_harvester(raising(MarketUnavailable("down", remedy="wait")), context)
    assert away == Tombstone("down (wait)", retryable=True)
    lacking = run_harvester(raising(NotConfigured("not available: pip install chordesk[events]")), context)
    assert lacking == Tombstone("not available: pip install chordesk[events]")


def test_a_reason_is_short_one_line_and_without_secrets(make_context: MakeContext) -> None:
    url = "https://me:hunter2secret@venue.example/v0?apikey=abcdef123456&term=x"
    text = f"no answer from {url}\nAuthorization: Bearer abcdefgh12345678 " + "x" * 300
    found = run_harvester(raising(MarketUnavailable(text)), board(make_context(FarMarket()), "A"))
    assert isinstance(found, Tombstone)
    assert len(found.reason) == 200
    assert "\n" not in found.reason
    for secret in ("hunter2secret", "abcdef123456", "abcdefgh12345678"):
        assert secret not in found.reason
    late = run_harvester(raising(MarketUnavailable("x" * 180 + " https://me:hunter2secret@venue.example")), board(
        make_context(FarMarket()), "A"))  # fmt: skip
    assert isinstance(late, Tombstone)
    assert "hunter" not in late.reason, "a secret that the bound would cut in half"


@pytest.mark.parametrize("error", [KeyError("me:hunter2secret"), ZeroDivisionError("x"), MemoryError("x")])
def test_a_failure_of_the_code_is_named_by_its_kind_alone(error: Exception, make_context: MakeContext) -> None:
    found = run_harvester(raising(error), board(make_context(FarMarket()), "A"))
    assert found == Tombstone(f"failed with {type(error).__name__}")


def test_one_that_does_not_end_in_time_is_offline(make_context: MakeContext) -> None:
    ends = threading.Event()

    def wait(context: HarvestContext) -> Harvest:
        ends.wait()
        return Harvest(dormant="too late")

    context = board(make_context(FarMarket()), "A", seconds=0.05)
    assert run_harvester(Harvester("slow", "Slow", wait), context) == Tombstone("no answer within 0.05 s", True)
    ends.set()


def test_a_finding_that_a_board_cannot_hold_is_refused(make_context: MakeContext) -> None:
    context = board(make_context(FarMarket()), "A")
    large = finding(context, data={"text": "x" * MAX_DATA_BYTES})
    later = finding(context, as_of="2024-03-16T00:00:00Z")
    fits = finding(context, data={"text": "x" * (MAX_DATA_BYTES - len('{"text":""}'))})

    def ends_with(one: SignalFinding) -> Harvest | Tombstone:
        return run_harvester(Harvester("one", "One", lambda _: Harvest(findings=(one,))), context)

    assert ends_with(fits) == Harvest(findings=(fits,))
    assert ends_with(large) == Tombstone("the data of a finding are 2059 bytes, more than 2048")
    assert ends_with(later) == Tombstone("a finding is of 2024-03-16 00:00, later than now")


def test_a_market_that_is_away_ends_no_harvester_with_an_exception(make_context: MakeContext) -> None:
    class Away(FarMarket):
        def universe(self, name: str) -> list:  # type: ignore[type-arg]
            raise MarketUnavailable("the market is away")

    context = board(make_context(Away(trouble={"A": MarketUnavailable("the market is away")})), "A")
    ended = {tool: run_harvester(one, context) for tool, one in HARVESTERS.items()}
    for tool in ("momentum", "reversal", "volatility", "headlines"):
        assert ended[tool] == Tombstone("the market is away", retryable=True), tool
    assert all(isinstance(one, Tombstone) or one.dormant for one in ended.values())


def test_each_voice_owns_a_tool_that_there_is_and_each_tool_is_documented() -> None:
    assert {voice.tool for voice in VOICES.values()} <= HARVESTERS.keys()
    written = (Path(__file__).parents[3] / "docs" / "board.md").read_text(encoding="utf-8")
    assert [tool for tool in HARVESTERS if f"\n| `{tool}` |" not in written] == []


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
