"""The baseline: turns through our JSON-RPC client alone, with no pool, registry, queue or database around it.

Run as a process, so that it has an interpreter of its own as a worker has; prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any

from chordesk.agents.codex.launch import prepare, runtime_config
from chordesk.agents.codex.protocol import Client
from chordesk.agents.codex.servers import OPT_OUT
from chordesk.agents.prompting import render
from chordesk.agents.roles import ROLES
from chordesk.agents.subjects import validator_subject
from chordesk.models.answers import output_schema
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext, Toolset
from chordesk.tools.toolsets import TurnTools


class Bare:
    def __init__(self, settings: Settings, role: str, folder: Path) -> None:
        self.settings, self.role, self.folder = settings, ROLES[role], folder
        market = build_market(settings)
        context = ToolContext(market, market.clock, None, settings, "paper", None)
        self.tools: Toolset = TurnTools(self.role.tools, context, 20, lambda arguments, answer: None)
        self.ended: dict[str, asyncio.Future[Any]] = {}

    async def start(self) -> None:
        config = runtime_config(self.settings, "bare")
        launch = await prepare(config)
        home, sqlite = self.folder / "home", self.folder / "sqlite"
        home.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(sqlite, ignore_errors=True)  # as the pool does at each start
        sqlite.mkdir()
        self.provider = launch.model_provider
        self.client = Client(
            launch.argv(sqlite), launch.environment(home), str(home),
            on_notification=self.notified, on_request=self.asked, on_death=lambda error: None, rpc_seconds=30, rpcs=64,
        )  # fmt: skip
        await self.client.start(OPT_OUT)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "turn/completed" and params["threadId"] in self.ended:
            self.ended[params["threadId"]].set_result(params["turn"]["status"])

    async def asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        answer = await self.tools.call(params["tool"], params["arguments"])
        return {"success": answer.success, "contentItems": [{"type": "inputText", "text": answer.text()}]}

    async def turn(self, subject: str) -> None:
        prompt = render(self.role, validator_subject(subject, "equity", [], self.settings, capital=1.0), self.settings)
        specs = [
            {"type": "function", "name": s.name, "description": s.description, "inputSchema": s.input_schema}
            for s in self.tools.specs()
        ]
        kind: dict[str, Any] = {"historyMode": "legacy"} if self.role.keeps_thread else {"ephemeral": True}
        started = await self.client.request(
            "thread/start",
            {
                "model": self.settings.model, "modelProvider": self.provider, "sandbox": "read-only",
                "baseInstructions": prompt.base_instructions, "approvalPolicy": "never", "dynamicTools": specs,
                "environments": [], **kind,
            },
        )  # fmt: skip
        thread = started["thread"]["id"]
        self.ended[thread] = asyncio.get_running_loop().create_future()
        schema = output_schema(self.role.schema)
        text = [{"type": "text", "text": prompt.user}]
        await self.client.request("turn/start", {"threadId": thread, "input": text, "outputSchema": schema})
        status = await asyncio.wait_for(self.ended[thread], 120)
        del self.ended[thread]
        assert status == "completed", status
        self.client.post("thread/unsubscribe", {"threadId": thread})


async def measure(bare: Bare, symbols: list[str], at_once: int) -> float:
    """Seconds for one turn a symbol, `at_once` of them at a time."""
    waiting = iter(symbols)

    async def work() -> None:
        for symbol in waiting:
            await bare.turn(symbol)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return time.perf_counter() - started


async def main(role: str, turns: int, at_once: int, folder: Path) -> None:
    bare = Bare(load_settings(), role, folder)
    await bare.start()
    symbols = [listing.symbol for listing in build_market(bare.settings).universe("sp500")]
    chosen = [symbols[number % len(symbols)] for number in range(turns)]
    await measure(bare, chosen[:at_once], at_once)
    seconds = await measure(bare, chosen, at_once)
    await bare.client.close(5)
    print(json.dumps({"turns": turns, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(main(given.role, given.turns, given.at_once, given.folder))
