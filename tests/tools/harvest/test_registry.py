"""Running a harvester: whatever happens inside, the answer is a harvest or the reason why there is none."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from chordesk.agents.board.voices import VOICES
from chordesk.models.board import Harvest
from chordesk.models.errors import MarketUnavailable, NotConfigured
from chordesk.models.tables.board import SignalFinding
from chordesk.tools.board.context import HarvestContext
from chordesk.tools.board.registry import HARVESTERS, MAX_DATA_BYTES, Harvester, Tombstone, run_harvester
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.toolsets import warm
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board
from tests.tools.market.far_market import FarMarket


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


def test_a_harvester_s_limit_is_that_of_its_tools(make_context: MakeContext) -> None:
    seen = []

    def look(context: HarvestContext) -> Harvest:
        seen.append(context.tool.settings.tool_seconds)
        return Harvest(dormant="seen")

    context = board(make_context(FarMarket(), tool_seconds=20), "A", seconds=7)
    assert run_harvester(Harvester("look", "Look", look), context) == Harvest(dormant="seen")
    assert seen == [7]


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


def test_all_tools_take_less_than_three_seconds_of_cpu_and_less_than_one_again(
    data: ReplayData, make_context: MakeContext
) -> None:
    """Measured: 0.1 s for a board of ten questions on the default data, and half of it again."""
    context = board(make_context(ReplayMarket(data, ReplayClock(data.sessions[240]))), *data.symbols[::50])
    warm()

    def spent() -> float:
        began = time.process_time()
        for harvester in HARVESTERS.values():
            assert isinstance(run_harvester(harvester, context), Harvest)
        return time.process_time() - began

    assert spent() < 3
    assert spent() < 1
