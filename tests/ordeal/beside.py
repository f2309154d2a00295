"""What TradingAgents reads and writes for a ticker, from a checkout: on the desk's data of the same day, by its own
client.

The stand-in asks for all of an analyst's tools in one message and then writes; so a ticker takes the fewest calls that
it can. A real model's texts are long, since that is what its prompts ask for, and each is read again by those who
debate and decide: that is most of what a ticker costs, so the length is given.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from chordesk.agents.graphs.tradingagents.data import DeskData
from chordesk.agents.graphs.tradingagents.provider import TickerGraph, answering, config_of, install, options_of
from chordesk.models.settings.sources import load_settings
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext
from tests.fakes.chat import Calls, FakeChat
from tests.fakes.obedient import fill
from tests.fakes.responses import Call, Text
from tests.homes import owned
from tests.ordeal.tokens import Lengths, ModelCall, Tokens, counted, model_call, total
from tests.stack import REPOSITORY

PRICE_DAYS, LOOK_BACK = 60, 30  # of prices and of indicators; the second is its tools' default
INDICATORS = "close_10_ema,close_50_sma,close_200_sma,macd,rsi,boll_ub,atr,vwma"  # up to eight are asked for
SECONDS = 900.0
_SENTENCE = (
    "The close of 58.67 is below its average of 20 sessions at 69.83, while volume of 52.35M was above its mean. "
)
_DAY = re.compile(r"(?:Today's date is|analysis date is) (\d{4}-\d\d-\d\d)")
_TICKER = re.compile(r"instrument to analyze is `([A-Z.]{1,6})`")


@dataclass(slots=True)
class Scribe:
    """A model that plays all agents and keeps its calls."""

    lengths: Lengths
    calls: list[ModelCall] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(self, body: dict[str, Any]) -> Any:
        reply = self._reply(body)
        written = reply.text if isinstance(reply, Text) else "".join(one.name + one.arguments for one in reply.calls)
        self.calls.append(model_call("TradingAgents", body, written))
        return reply

    def _reply(self, body: dict[str, Any]) -> Text | Calls:
        tools = [tool["function"] for tool in body.get("tools") or ()]
        if isinstance(body.get("tool_choice"), dict):
            (tool,) = tools
            return Calls((Call(tool["name"], json.dumps(self._structured(tool["parameters"]))),))
        if not tools or body["messages"][-1]["role"] == "tool":
            return Text(self._prose(self.lengths.text))
        return Calls(tuple(Call(tool["name"], json.dumps(_arguments(tool, body))) for tool in tools))

    def _structured(self, schema: dict[str, Any]) -> Any:
        return {
            name: self._prose(self.lengths.field) if given == "text" else given
            for name, given in fill(schema, "'text' 5", schema, final=True).items()
        }

    def _prose(self, length: int) -> str:
        """Return a text that no other begins as."""
        text = f"Text {next(self._numbers)}. "
        return (text + _SENTENCE * (1 + length // len(_SENTENCE)))[: max(length, len(text))].strip()


def _arguments(tool: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a tool takes, for the ticker and the day of the request."""
    text = "".join(str(message.get("content")) for message in body["messages"])
    ticker, day = _first(_TICKER, text), _first(_DAY, text)
    start = dt.date.fromisoformat(day) - dt.timedelta(days=PRICE_DAYS)
    known = {"symbol": ticker, "ticker": ticker, "query": ticker, "indicator": INDICATORS, "look_back_days": LOOK_BACK}
    known |= {"curr_date": day, "end_date": day, "start_date": str(start), "freq": "annual"}
    given: dict[str, Any] = fill(tool["parameters"], "'cpi' 5", tool["parameters"], final=False)
    return given | {name: value for name, value in known.items() if name in given}


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    assert found is not None, f"no {pattern.pattern} in {text[:500]!r}"
    return found[1]


def trading_agents_tokens(checkout: Path, tickers: Sequence[str], lengths: Lengths) -> Tokens:
    """Return the tokens of one run on each of the tickers."""
    model = Scribe(lengths)
    with FakeChat(model, log=False) as served, owned() as home:
        command = [sys.executable, "-m", "tests.ordeal.beside", "--url", served.url, "--home", str(home), *tickers]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=_environ(checkout), capture_output=True, text=True, timeout=SECONDS
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(json.loads(done.stdout.splitlines()[-1])) == list(tickers)
    return total(counted(model.calls).values())


def _environ(checkout: Path) -> dict[str, str]:
    """Return an environment with the checkout on the path, and without settings of anybody's."""
    own = ("DESK_", "TRADER_", "AUTONOMOUS_", "TRADINGAGENTS_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    paths = [str(REPOSITORY), str(checkout), *filter(None, [clean.get("PYTHONPATH")])]
    return {**clean, "PYTHONPATH": os.pathsep.join(paths)}


ANALYSTS = ("market", "social", "news", "fundamentals")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="of the model")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("tickers", nargs="+")
    given = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "none is needed here"
    settings = load_settings({}, given.home)
    market = build_market(settings)
    context = ToolContext(market, market.clock, None, settings, settings.account, None)
    install(options_of(settings))
    config = {**config_of("gpt-5.5", 1, str(given.home)), "llm_provider": "openai", "backend_url": given.url}
    with answering(DeskData(context)):
        day = exchange_day(market.clock.now())
        print(json.dumps({ticker: rating(ticker, day, config) for ticker in given.tickers}), flush=True)


def rating(ticker: str, day: dt.date, config: dict[str, Any]) -> str:
    """Return the rating that a ticker's graph ends with: one round of each debate, nothing of earlier runs."""
    made = import_module("tradingagents.graph.trading_graph").TradingAgentsGraph(ANALYSTS, config=config)
    graph = TickerGraph(ticker, made)
    state = graph.compiled.invoke(graph.begin(str(day), ""), {"recursion_limit": 100})
    return str(made.process_signal(state["final_trade_decision"]))


if __name__ == "__main__":
    main()
