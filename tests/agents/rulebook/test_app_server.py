"""The rulebook behind the real app-server: its stream is understood, and it understands what the app-server sends."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import redis.asyncio

from chordesk.agents.codex.launch import runtime_config
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.prompting import render
from chordesk.agents.roles import GRAPH_ROLES, ROLES, SKEPTIC, validators
from chordesk.agents.rulebook.cases import MAX_CALLS
from chordesk.agents.runtime import ConversationSpec
from chordesk.agents.subjects import (
    AnalystSubject,
    analyst_subject,
    screener_subject,
    skeptic_subject,
    synthesis_subject,
    trader_subject,
    validator_subject,
)
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import output_schema
from chordesk.models.settings import LENSES, Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolAnswer, ToolContext
from chordesk.tools.toolsets import TurnTools

SYMBOLS = ["AAPL", "IBM", "MMM", "WMT"]
PORTFOLIO = {"cash": 1_000.0, "equity": 1_000.0, "buyingPower": 1_000.0, "positions": []}


def brief(key: str, settings: Settings) -> dict[str, Any]:
    if ROLES[key].mode == "screener":
        return screener_subject(key.removeprefix("screener_"), 0, SYMBOLS, settings)
    if key == "synthesis":
        return dict(synthesis_subject("IBM", "csp", {"recommendation": "reject", "reasons": ["x"]}, settings))
    if key == SKEPTIC:
        return dict(skeptic_subject(validator_subject("AAPL", "equity", [], settings), [], {"probability": 0.6}))
    if ROLES[key].subject is AnalystSubject:
        return dict(analyst_subject(validator_subject("IBM", "equity", [], settings), AnalysisRequest()))
    if ROLES[key].mode == "research":
        return validator_subject("AAPL", "equity", [], settings)
    return trader_subject("paper", [], PORTFOLIO, settings)


class Bench:
    def __init__(self, runtime: CodexRuntime, settings: Settings) -> None:
        self.runtime, self.settings = runtime, settings
        market = build_market(settings)
        self.context = ToolContext(market, market.clock, None, settings, "paper", None)

    async def turns(self, key: str, texts: int = 1, repair: str | None = None) -> tuple[list[Any], list[ToolAnswer]]:
        """So many turns of a role on one thread, the last one with another text if given."""
        role, seen = ROLES[key], list[ToolAnswer]()
        tools = TurnTools(role.tools, self.context, 20.0, lambda _arguments, answer: seen.append(answer))
        prompt = render(role, brief(key, self.settings), self.settings)
        spec = ConversationSpec(key, "s", role.keeps_thread, prompt.base_instructions, tools, "gpt-5.5", "h")
        asked = [prompt.user] * texts + ([repair] if repair else [])
        results = []
        async with self.runtime.conversation(spec, asyncio.get_running_loop().time() + 60) as conversation:
            for text in asked:
                results.append(await conversation.turn(text, output_schema(role.schema), {"step_id": "s"}))
        return results, seen


async def test_every_role_ends_its_turn_through_the_app_server(
    rulebook: str, redis_server: str, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, rulebook_url=rulebook, replay_date=dt.date(2010, 8, 12))
    client = redis.asyncio.Redis.from_url(redis_server)
    await client.flushall()
    runtime = CodexRuntime(runtime_config(settings, "w"), client)
    await runtime.start()
    try:
        bench = Bench(runtime, settings)
        turns = [key for key in validators() if key not in GRAPH_ROLES]  # a graph's turns have roles of its own
        keys = [*(f"screener_{lens}" for lens in LENSES), *turns, "synthesis", "trader"]
        ended = await asyncio.gather(*(bench.turns(key) for key in keys))
        for key, (results, seen) in zip(keys, ended, strict=True):
            assert [result.failure for result in results] == [None], key
            ROLES[key].schema.model_validate_json(results[0].text)
            assert bool(ROLES[key].tools) <= len(seen) <= MAX_CALLS, key
            assert results[0].usage.total_tokens > 0
        await check_kept_thread(bench)
    finally:
        await runtime.close(5)
        await client.aclose()


async def check_kept_thread(bench: Bench) -> None:
    """A second and a third turn look again; a repair message gets the same answer and looks at nothing."""
    results, seen = await bench.turns("risk", texts=2, repair="Your last answer does not fit the required schema.")
    assert [answer.tool for answer in seen] == ["signals_get", "technicals_get"] * 2
    assert [result.failure for result in results] == [None] * 3
    assert len({result.text for result in results}) == 1
