"""The runner on a runtime in plain Python: it needs the protocol and no Codex."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest

from chordesk.agents.role import Role
from chordesk.agents.roles import ROLES, TOOLS
from chordesk.agents.runner import Assignment, InterruptSignal, RoleRun, Runner
from chordesk.agents.runtime import Runtime
from chordesk.agents.subjects import validator_subject
from chordesk.models.answers import Failed, Failure, Interrupted, Refused
from chordesk.models.database.blobs import path_in_home
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run
from tests.fakes.runtime import FakeRuntime, FakeTurn
from tests.parts import needs

ROOT = Path(__file__).parents[2]
GOOD = json.dumps({"verdict": "CONFIRMED", "confidence": "high", "summary": "Steady.", "keyRisks": ["earnings"]})
SIGNALS = (("signals_get", {"symbols": ["IBM"]}),)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings(
        provider="endpoint", provider_url="http://127.0.0.1:1/v1", role_models="risk=codex:other:high",
        role_approvals="quick:command",
    )  # fmt: skip


def work(runtime: Runtime, settings: Settings, *roles: str | Role, halt_after: float | None = None) -> list[RoleRun]:
    market = build_market(settings)
    found: list[RoleRun] = []

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    async def all_of_them() -> None:
        runner = Runner({"codex": runtime, "litellm": runtime}, settings, context)
        for role in roles:
            brief = validator_subject("IBM", "equity", [], settings, capital=100_000.0)
            halt, known = InterruptSignal(), ROLES[role] if isinstance(role, str) else role
            if halt_after is not None:
                asyncio.get_running_loop().call_later(halt_after, halt.ask)
            found.append(await runner.run(Assignment("run-1", "step-1", 2, known, "IBM", brief), halt))

    run(all_of_them())
    return found


def test_a_picture_that_a_tool_gave_is_an_artifact_of_its_turn(settings: Settings, tmp_path: Path) -> None:
    """Two calls with the same picture are two artifacts with one file."""
    chart = ("chart_render", {"symbols": ["IBM"]})
    runtime = FakeRuntime()
    runtime.turns.append(FakeTurn(GOOD, (*SIGNALS, chart, chart)))
    role = dataclasses.replace(ROLES["quick"], tools=(*ROLES["quick"].tools, TOOLS["chart_render"]), first=None)
    (done,) = work(runtime, settings.model_copy(update={"home": tmp_path}), role)
    (turn,) = done.turns
    assert [(one.run_id, one.turn_id, one.kind) for one in done.artifacts] == [("run-1", turn.id, "image/png")] * 2
    assert [one.call_id for one in done.artifacts] == [call.id for call in done.calls[1:]]
    (file,) = (tmp_path / "artifacts").iterdir()
    assert {path_in_home(one.digest, one.kind) for one in done.artifacts} == {f"artifacts/{file.name}"}
    assert {one.size for one in done.artifacts} == {file.stat().st_size}
    assert file.read_bytes().startswith(b"\x89PNG")
    assert done.rows == (done.turns, done.calls, done.artifacts)


def test_each_role_runs_on_its_own_model(settings: Settings) -> None:
    runtime = FakeRuntime(policy=lambda _prompt: FakeTurn(GOOD, SIGNALS))
    quick, risk = work(runtime, settings, "quick", "risk")
    assert [(one.spec.model, one.spec.effort) for one in runtime.prompts] == [("gpt-5.5", None), ("other", "high")]
    assert [one.turns[0].model for one in (quick, risk)] == ["endpoint:gpt-5.5", "endpoint:other"]


@needs("litellm")
def test_a_role_of_another_runtime_has_its_label_its_limits_and_no_kept_thread() -> None:
    text = "risk=litellm:anthropic/claude-sonnet-4-5|openai/gpt-5.5:high;quick=litellm:rulebook"
    settings = Settings(role_models=text, depth="deep")
    turn = FakeTurn(GOOD, SIGNALS, model="openai/gpt-5.5", cost_usd=0.25)
    runtime = FakeRuntime(policy=lambda prompt: turn if prompt.spec.role == "risk" else FakeTurn(GOOD, SIGNALS))
    risk, quick = work(runtime, settings, "risk", "quick")
    spec = runtime.prompts[0].spec
    assert (spec.model, spec.fallbacks, spec.effort) == ("anthropic/claude-sonnet-4-5", ("openai/gpt-5.5",), "high")
    assert spec.model_calls == 20
    (row,) = risk.turns
    assert (row.provider, row.model, row.kept, row.cost_usd) == ("litellm", "litellm:openai/gpt-5.5", False, 0.25)
    (row,) = quick.turns
    assert (row.provider, row.model, row.cost_usd) == ("rulebook", "rulebook (rules, no model)", None)


def test_a_refusal_and_a_failure_are_outcomes(settings: Settings) -> None:
    runtime = FakeRuntime()
    failure = Failure(kind="server_error", retryable=True, message="down")
    runtime.turns.extend([FakeTurn(refusal="no"), FakeTurn(failure=failure)])
    refused, failed = work(runtime, settings, "quick", "quick")
    assert refused.outcome == Refused(text="no")
    assert isinstance(failed.outcome, Failed)
    assert failed.outcome.kind == "server_error"


def test_a_halt_interrupts_the_running_turn(settings: Settings) -> None:
    runtime = FakeRuntime(policy=lambda _prompt: FakeTurn(GOOD, seconds=20))
    (done,) = work(runtime, settings, "quick", halt_after=0.05)
    assert done.outcome == Interrupted()
