"""Turns that fit the context of their model: what is left out of a prompt, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.prompting import (
    CALLS,
    SMALLEST_ANSWER,
    fixed_tokens,
    require_context,
    smallest_tokens,
    symbols_a_turn,
)
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.role_models import RoleModel
from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, RoleRun, Runner, fit_job, question
from chordesk.agents.subjects import JudgedSymbol, screener_subject, trader_subject, validator_subject
from chordesk.models.answers import Completed, Failed
from chordesk.models.errors import ContextWindow, UsageError
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import LEFT_OUT, tokens_of
from tests.agents.codex.kit import run, running
from tests.fakes.responses import Call, FakeResponses, Text

MODEL = RoleModel("local", "qwen3:8b")
LIMITS = TurnLimits()
QUICK, TRADER, SCREENER = ROLES["quick"], ROLES["trader"], ROLES["screener_technical"]
GOOD = {"verdict": "CONFIRMED", "confidence": "high", "summary": "Steady.", "keyRisks": ["earnings"]}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"), provider="local", provider_url="http://127.0.0.1:1/v1")


@pytest.fixture(scope="module")
def market(settings: Settings) -> MarketData:
    return build_market(settings)


def verdict(symbol: str) -> JudgedSymbol:
    return {
        "symbol": symbol, "instrument": "equity", "rating": "BUY", "confidence": "high", "keyRisks": ["a risk"],
        "summary": "Rising on volume; the last quarter was better than the one before it. " * 3, "missing": [],
    }  # fmt: skip


def trader_job(settings: Settings, memory: str | None = None) -> Assignment:
    verdicts = [verdict(f"S{number}") for number in range(20)]
    notes = {
        f"S{number}": ["2026-01-02 bought 10 at 12.5; it closed at 12.9 five sessions later"] for number in range(20)
    }
    brief = trader_subject("paper", verdicts, {"cash": 1e5, "positions": []}, settings, notes)
    return Assignment("run-1", "step-1", 1, TRADER, "paper", brief, memory=memory)


def quick_job(settings: Settings, memory: str | None = None) -> Assignment:
    brief = validator_subject("IBM", "equity", [], settings, capital=100_000.0)
    return Assignment("run-1", "step-1", 1, QUICK, "IBM", brief, memory=memory)


def prompt_tokens(job: Assignment, settings: Settings, brief: Mapping[str, Any], memory: str | None) -> int:
    shown = Assignment("run-1", "step-1", 1, job.role, job.subject, brief, memory=memory)
    return fixed_tokens(job.role, settings) + tokens_of(question(shown, settings, afresh=True).user)


def test_what_fits_stays_as_it_is_and_its_rest_is_room_for_tools(settings: Settings) -> None:
    job = quick_job(settings, "a line")
    fit = fit_job(job, settings, MODEL, 16_384)
    assert (fit.brief, fit.memory, fit.left_out) == (job.brief, "a line", ())
    assert fit.room is not None
    assert fit.room.left == 16_384 - 4_096 - prompt_tokens(job, settings, job.brief, "a line")


def test_memory_goes_before_the_subject(settings: Settings) -> None:
    lines = [f"2026-01-{day:02} verdict BUY (high): {'it rose on volume. ' * 10}" for day in range(1, 29)]
    job = quick_job(settings, "\n".join(lines))
    fit = fit_job(job, settings, MODEL, 4_096)
    assert fit.brief == job.brief
    assert fit.memory is not None
    kept = fit.memory.splitlines()
    assert kept[:-1] == lines[: len(kept) - 1], "the newest come first"
    assert kept[-1].startswith(f"({28 - len(kept) + 1} of 28 lines left out: no room in the model's context")
    assert fit.left_out == (f"memory: {28 - len(kept) + 1} of 28 lines",)
    assert prompt_tokens(job, settings, fit.brief, fit.memory) <= 4_096 - 1_024 - CALLS / 2


@pytest.mark.parametrize("context", [8_192, 12_288, 32_768])
def test_what_is_left_out_of_a_subject_is_named_in_it(settings: Settings, context: int) -> None:
    job = trader_job(settings)
    fit = fit_job(job, settings, MODEL, context)
    tokens = prompt_tokens(job, settings, fit.brief, None)
    assert tokens + SMALLEST_ANSWER <= context
    assert fit.room is not None
    assert fit.room.left > 0
    said = fit.brief.get(LEFT_OUT, {})
    for part in ("verdicts", "notes"):
        kept, all_of = fit.brief[part], job.brief[part]
        names = [row["symbol"] if part == "verdicts" else row for row in kept]
        gone = [one for one in (f"S{number}" for number in range(20)) if one not in names]
        assert said.get(part, {}).get("names", []) == gone
        assert len(kept) + said.get(part, {}).get("rows", 0) == len(all_of)
    assert fit.brief["constraints"] == job.brief["constraints"]
    assert bool(said) == bool(fit.left_out)
    if "verdicts" in said:
        assert said["notes"]["rows"] == 20, "what is to be judged goes last"
        assert f"verdicts: {said['verdicts']['rows']} of 20 (S{20 - said['verdicts']['rows']}" in fit.left_out[1]


def test_a_prompt_that_does_not_fit_at_all_fails_with_both_numbers(settings: Settings) -> None:
    with pytest.raises(ContextWindow, match=r"a turn of quick on local:qwen3:8b takes 3,\d+ tokens .*has 2,048"):
        fit_job(quick_job(settings), settings, MODEL, 2_048)


def test_a_trader_is_not_asked_about_nothing(settings: Settings) -> None:
    with pytest.raises(ContextWindow, match=r"the question to trader is .* 5,700 tokens, has room for \d+"):
        fit_job(trader_job(settings), settings, MODEL, 5_700)


def test_a_role_whose_smallest_prompt_does_not_fit_is_refused(settings: Settings) -> None:
    for role in ROLES.values():
        needed = smallest_tokens(role, settings)
        assert 1_900 < needed < 8_000
        require_context(role, MODEL, settings, needed)
        with pytest.raises(UsageError) as refused:
            require_context(role, MODEL, settings, needed - 1)
        text = f"a turn of {role.key} on local:qwen3:8b takes {needed:,} tokens at the least; its context has "
        assert str(refused.value).startswith(f"{text}{needed - 1:,}")
        assert "llama.cpp: -c" in refused.value.remedy
        assert "OLLAMA_CONTEXT_LENGTH" in refused.value.remedy
        assert "DESK_ROLE_MODELS" in refused.value.remedy


@pytest.mark.parametrize(("context", "symbols"), [(8_192, 9), (32_768, 62)])
def test_a_screeners_turn_has_as_many_symbols_as_it_can_look_at(
    settings: Settings, market: MarketData, context: int, symbols: int
) -> None:
    assert symbols_a_turn(SCREENER, settings, context, LIMITS) == pytest.approx(symbols, abs=2)
    names = resolve_universe("sp500", market)[:symbols]
    brief = screener_subject("technical", 0, names, settings)
    fit = fit_job(Assignment("r", "s", 1, SCREENER, "shard-0", brief), settings, MODEL, context)
    assert fit.left_out == ()


def test_a_turn_of_a_small_context_says_what_it_lacked(
    settings: Settings, market: MarketData, tmp_path: Path, redis_server: str
) -> None:
    """The model asks for more than there is room for; what it saw, what is recorded and what is said agree."""
    found: list[RoleRun] = []
    lines = "\n".join(f"2026-01-{day:02} verdict BUY (high): {'it rose on volume. ' * 10}" for day in range(1, 29))

    async def size(_model: RoleModel) -> int:
        return 4_608

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    with FakeResponses(lambda _body: Text(json.dumps(GOOD))) as model:
        model.script(Call("signals_get", json.dumps({"symbols": ["IBM", "GE", "XOM", "PG", "KO", "T"]})))

        async def work() -> None:
            async with running(model, tmp_path, redis_server) as runtime:
                runtimes: dict[str, CodexRuntime] = {"local": runtime}
                runner = Runner(runtimes, settings, context, size_of=size)
                job = quick_job(settings, lines)
                found.append(await runner.run(replace(job, role=replace(job.role, first=None))))

        run(work())
        first, second = model.calls()
    (ran,) = found
    assert isinstance(ran.outcome, Completed)
    left = ran.recorded[0].answer.payload[LEFT_OUT]["signals"]
    assert ran.left_out[0].startswith("memory: ")
    assert ran.left_out[1] == f"signals_get signals: {left['rows']} of 6"
    asked = next(item["content"][0]["text"] for item in first.body["input"] if item.get("role") == "user")
    in_words = {"constraints"}  # a research role has them as a sentence
    data = {name: part for name, part in ran.question.items() if name not in in_words}
    assert json.loads(asked.partition("```subject\n")[2].partition("\n```")[0]) == data
    told = next(item["output"] for item in second.body["input"] if item["type"] == "function_call_output")
    told = told if isinstance(told, str) else told[0]["text"]
    assert json.loads(told) == ran.recorded[0].answer.payload


def test_a_prompt_that_cannot_fit_is_a_failure_that_is_not_repeated(
    settings: Settings, market: MarketData, tmp_path: Path
) -> None:
    async def size(_model: RoleModel) -> int:
        return 1_024

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    ran = asyncio.run(Runner({}, settings, context, size_of=size).run(quick_job(settings)))
    assert isinstance(ran.outcome, Failed)
    assert (ran.outcome.kind, ran.outcome.retryable) == ("context_window", False)
    assert "its context has 1,024" in ran.outcome.message
