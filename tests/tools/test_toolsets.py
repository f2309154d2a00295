from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from chordesk.agents.roles import ROLES, TOOLS
from chordesk.models.company import Statement
from chordesk.models.errors import MarketError
from chordesk.models.market import Headline
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.registry import Arguments, ToolAnswer, ToolImage, ToolSpec, failed
from chordesk.tools.toolsets import GIVEN_SECONDS, MAX_IMAGE_BYTES, Given, TurnTools
from tests.patience import PATIENCE
from tests.tools.conftest import Call, MakeContext, every_tool
from tests.tools.market.far_market import FarMarket, daily

QUICK = ROLES["quick"].tools


def test_the_tools_of_roles(market: ReplayMarket, make_context: MakeContext) -> None:
    for role in ROLES.values():
        toolset = TurnTools(role.tools, make_context(market), 5, lambda arguments, answer: None)
        assert tuple(toolset.specs()) == role.tools
        names = [tool.name for tool in role.tools]
        assert not [
            name
            for name in names
            if "submit" in name or ("order" in name and name not in ("orders_preview", "orders_list"))
        ]
    assert all(TOOLS[name].name == name for name in TOOLS)
    without_data = {"universe_list", "portfolio_get", "report_latest", "orders_preview"}
    of_rows = {name for name, spec in TOOLS.items() if spec.function.__module__.endswith("row_tools")}
    assert {name for name, spec in TOOLS.items() if not spec.data} == without_data | of_rows


def test_schemas_are_closed_and_self_contained() -> None:
    for spec in TOOLS.values():
        schema = spec.input_schema
        Draft202012Validator.check_schema(schema)
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert "$ref" not in str(schema)
        assert "title" not in schema


def test_a_nested_argument_model_is_refused() -> None:
    class Inner(Arguments):
        x: int

    class Outer(Arguments):
        inner: Inner

    with pytest.raises(TypeError, match="Outer: tool arguments are plain values"):
        _ = ToolSpec("t", "d", Outer, lambda context, arguments: {}).input_schema


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("signals_get", {}, "argument 'symbols' is needed"),
        ("signals_get", {"symbols": []}, "argument 'symbols' is []: List should have at least 1 item"),
        ("signals_get", {"symbols": "AAPL"}, "argument 'symbols' is 'AAPL': Input should be a valid list"),
        ("signals_get", {"symbols": ["AA PL"]}, "argument 'symbols.0' is 'AA PL': a symbol is 1 to 20 of A-Z"),
        ("signals_get", {"symbols": [7]}, "argument 'symbols.0' is 7: Input should be a valid string"),
        ("signals_get", {"symbols": [f"S{n}" for n in range(151)]}, "at most 150 items"),
        ("signals_get", {"symbols": ["A"], "days": 5}, "unknown argument 'days'; known: symbols"),
        ("portfolio_get", {"account": "x"}, "unknown argument 'account'; known: none"),
        ("sp500_movers", {"direction": "x"}, "argument 'direction' is 'x': Input should be 'up' or 'down'"),
        ("sp500_movers", {"direction": "up", "limit": 0}, "argument 'limit' is 0"),
        ("company_get", {"symbols": ["A"], "parts": ["gossip"]}, "argument 'parts.0' is 'gossip'"),
        ("news_list", {"symbols": ["A"], "limit": float("nan")}, "argument 'limit' is nan"),
        ("news_list", {"symbols": ["a$"] * 9}, "and 4 more"),
        ("news_list", ["A"], "arguments must be an object with: symbols, limit"),
    ],
)
def test_wrong_arguments_are_explained(
    market: ReplayMarket, make_context: MakeContext, tool: str, arguments: Any, message: str
) -> None:
    answer = asyncio.run(every_tool(make_context(market)).call(tool, arguments))
    assert (answer.success, answer.has_data, answer.payload["success"]) == (False, False, False)
    assert message in answer.payload["error"]


def test_a_role_can_call_nothing_outside_its_set(market: ReplayMarket, make_context: MakeContext) -> None:
    tools = TurnTools(QUICK, make_context(market), 5, lambda arguments, answer: None)
    for name in ("portfolio_get", "orders_submit", "shell"):
        answer = asyncio.run(tools.call(name, {}))
        assert answer.payload == {
            "error": f"no tool named {name}; you have: signals_get",
            "success": False,
        }
    answer = asyncio.run(tools.call("signals_get", {"symbols": [" mmm", "AAPL", "aapl", "MMM"]}))
    assert [row["symbol"] for row in answer.payload["signals"]] == ["MMM", "AAPL"]


@pytest.mark.parametrize("error", [RuntimeError("a secret path"), SystemExit("a secret path")])
def test_an_unexpected_error_is_an_answer_without_its_text(call: Call, error: BaseException) -> None:
    answer = call(FarMarket(trouble={"A": error}), "signals_get", symbols=["A"])
    why = f"signals_get failed unexpectedly: {type(error).__name__}"
    assert answer.payload == {"error": why, "success": False}
    assert answer.data
    assert not answer.has_data


def test_an_error_of_the_desk_is_returned_with_its_remedy(make_context: MakeContext, call: Call) -> None:
    answer = call(make_context(FarMarket(), universe="nowhere/list.txt"), "universe_list")
    assert not answer.success
    assert "'nowhere/list.txt' cannot be read" in answer.payload["error"]
    assert "one symbol a line" in answer.payload["error"]


def a_picture(data: bytes) -> ToolSpec:
    image = ToolImage(data, "image/png")
    return ToolSpec("chart", "d", Arguments, lambda context, arguments: ({"available": True}, image))


def test_a_picture_of_a_run_is_stored_before_the_model_gets_it(
    make_context: MakeContext, market: ReplayMarket, tmp_path: Path
) -> None:
    def shown(data: bytes, run: str | None = "run-1") -> ToolAnswer:
        context = dataclasses.replace(make_context(market, home=tmp_path), run_id=run)
        return asyncio.run(TurnTools([a_picture(data)], context).call("chart", {}))

    folder, most = tmp_path / "artifacts", b"x" * MAX_IMAGE_BYTES
    assert shown(most, None).image == ToolImage(most, "image/png")
    large = shown(most + b"x" * 103)
    error = "the image is 1024.1 KB, more than 1024 KB: ask for a smaller image or fewer symbols"
    assert (large.success, large.has_data, large.image, large.payload["error"]) == (False, False, None, error)
    assert not folder.exists(), "one of no run, and one that is too large"
    assert all(shown(b"one").success for _ in range(2))
    (file,) = folder.iterdir()
    assert file.name == f"{hashlib.sha256(b'one').hexdigest()}.png"
    assert file.read_bytes() == b"one"
    file.unlink()
    folder.rmdir()
    folder.write_text("a file where the folder would be")
    answer = shown(b"one")
    assert (answer.success, answer.image, answer.has_data) == (False, None, False)
    assert answer.payload["error"].startswith("the picture of chart could not be stored: ")


def test_too_long_an_answer_asks_for_less(call: Call) -> None:
    at = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    long = [Headline(symbol="X", headline=f"{n} {'h' * 290}", source="wire", published_at=at) for n in range(25)]
    names = [f"N{number}" for number in range(10)]
    market = FarMarket(news=dict.fromkeys(names, long))
    answer = call(market, "news_list", symbols=names, limit=25)
    assert (answer.success, answer.has_data) == (False, False)
    assert "more than 46 KB: ask for fewer symbols" in answer.payload["error"]
    assert call(market, "news_list", symbols=names[:2], limit=25).has_data


def test_a_call_that_takes_too_long_is_given_up(make_context: MakeContext) -> None:
    """It is answered while its source is still silent."""
    released = threading.Event()
    market = FarMarket({"A": daily("A", [1, 2])}, before=lambda _symbol: released.wait(PATIENCE))
    tools = TurnTools(tuple(TOOLS.values()), make_context(market), 0.1)

    async def timed() -> ToolAnswer:
        answer = await tools.call("signals_get", {"symbols": ["A"]})
        released.set()
        return answer

    answer = asyncio.run(timed())
    assert answer.payload["error"].startswith("signals_get did not answer within 0.1 s")
    assert answer.data
    assert not answer.has_data


class OpeningMarket(FarMarket):
    """A market of files, whose statements are read at the first question."""

    read = False

    def recorded(self) -> list[dt.date]:
        return []

    def on(self, _clock: object) -> OpeningMarket:
        return self

    def statements(self, symbol: str) -> list[Statement]:
        if symbol not in self.histories:
            raise MarketError(f"unknown symbol {symbol}")
        if not self.read:
            time.sleep(1.5)
            self.read = True
        return []


def test_what_a_process_reads_once_is_not_of_a_call_s_time(make_context: MakeContext) -> None:
    market = OpeningMarket({"A": daily("A", [1, 2])})
    tools = TurnTools(tuple(TOOLS.values()), make_context(market), 1.0)
    answer = asyncio.run(tools.call("company_get", {"symbols": ["NONE", "A"], "parts": ["statements"]}))
    assert (market.read, answer.success) == (True, True), answer.payload


def test_every_call_is_recorded_in_order(market: ReplayMarket, make_context: MakeContext) -> None:
    seen: list[tuple[Mapping[str, Any], ToolAnswer]] = []
    tools = TurnTools(QUICK, make_context(market), 5, lambda arguments, answer: seen.append((arguments, answer)))

    async def calls() -> list[ToolAnswer]:
        return [
            await tools.call("signals_get", {"symbols": ["AAPL"]}),
            await tools.call("nope", {"a": 1}),
            await tools.call("signals_get", {}),
        ]

    answers = asyncio.run(calls())
    assert [answer for _, answer in seen] == answers
    assert [arguments for arguments, _ in seen] == [{"symbols": ["AAPL"]}, {"a": 1}, {}]
    assert [answer.has_data for answer in answers] == [True, False, False]
    assert answers[0].seconds > 0


def test_an_answer_of_a_moment_ago_is_not_asked_for_again(make_context: MakeContext) -> None:
    """Once, of the same call; not where it is old, and a failure is tried again."""
    asked: list[str] = []
    market = FarMarket({"A": daily("A", [1, 2])}, before=asked.append)
    ask, old = {"symbols": ["A"]}, time.monotonic() - GIVEN_SECONDS - 1

    async def calls() -> int:
        context = make_context(market)
        answer = await TurnTools(tuple(TOOLS.values()), context).call("signals_get", ask)
        lost = failed("signals_get", "the source was silent", data=True)
        asked.clear()
        tools = TurnTools(tuple(TOOLS.values()), context, tag="kqz", given=[Given(ask, lost), Given(ask, answer)])
        again = await tools.call("signals_get", {"symbols": ["A"]})
        assert again.payload == {"cite": "kqz-a", **answer.payload}
        assert asked == []
        await tools.call("signals_get", ask)
        late = len(asked)
        await TurnTools(tuple(TOOLS.values()), context, given=[Given(ask, answer, old)]).call("signals_get", ask)
        return late

    late = asyncio.run(calls())
    assert (late > 0, len(asked)) == (True, 2 * late)


def test_a_call_that_cannot_be_recorded_is_not_answered(market: ReplayMarket, make_context: MakeContext) -> None:
    def sink(arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        raise OSError("disk full")

    tools = TurnTools(tuple(TOOLS.values()), make_context(market), None, sink)
    answer = asyncio.run(tools.call("signals_get", {"symbols": ["AAPL"]}))
    assert answer.payload == {"error": "the answer of signals_get could not be recorded", "success": False}


def test_importing_the_tools_is_light_and_warming_loads_the_rest() -> None:
    code = (
        "import sys, chordesk.agents.roles, chordesk.tools.toolsets as t;"
        "heavy = {'pandas', 'talib', 'exchange_calendars', 'yfinance', 'PIL', 'trafilatura', 'lxml'};"
        "print(sorted(heavy & sys.modules.keys())); t.warm('XNYS'); print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['exchange_calendars', 'pandas', 'talib']"]
