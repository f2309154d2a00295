"""Turns of the three analysts with the real tools: what a model names is completed, repaired once, or fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, RoleRun, Runner
from chordesk.agents.subjects import analyst_subject, validator_subject
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import Completed, Failed, ReportStatus
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run
from tests.fakes.runtime import FakeRuntime, FakeTurn

PUT, INVENTED = "AFL100917P00046000", "AFL100917P00045500"
CHART: dict[str, Any] = {
    "recommendation": "bullish", "confidence": "high", "trendDirection": "up", "trendQuality": "strong",
    "extensionRisk": None, "support": ["S1"], "resistance": [], "confluence": [], "summary": "It rises.",
    "keyRisks": [],
}  # fmt: skip
OPTIONS: dict[str, Any] = {
    "recommendation": "select", "confidence": "low", "contract": PUT, "alternatives": [], "premiumQuality": None,
    "summary": "Modelled quotes.", "keyRisks": ["modelled"],
}  # fmt: skip
RESEARCH: dict[str, Any] = {
    "recommendation": "pass", "confidence": "high", "newsRisk": "low", "earningsRisk": "low",
    "shortInterestRisk": "low", "summary": "All quiet.", "keyRisks": [],
}  # fmt: skip
Called = tuple[str, dict[str, Any]]
STUDY: Called = ("chart_study_get", {"symbols": ["AFL"]})
CHAIN: Called = ("option_chain_get", {"symbols": ["AFL"], "minWeeklyRoc": 0.005, "deltaMax": 0.3})
Ask = Callable[..., RoleRun]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Runs one analyst whose model makes the calls, then gives the answers one after the other."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(
        home=home, provider="endpoint", provider_url="http://127.0.0.1:1/v1", replay_options="modelled"
    )  # fmt: skip
    market = build_market(settings)

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    def asked(role: str, calls: tuple[Called, ...], *answers: dict[str, Any], symbol: str = "AFL") -> RoleRun:
        runtime = FakeRuntime()
        first, *rest = [json.dumps(one) for one in answers]
        runtime.turns.extend([FakeTurn(first, calls), *map(FakeTurn, rest)])
        candidate = validator_subject(symbol, "equity", [], settings, capital=100_000.0)
        job = Assignment("run-1", "step-1", 1, ROLES[role], symbol, analyst_subject(candidate, AnalysisRequest()))
        found: list[RoleRun] = []

        async def work() -> None:
            found.append(await Runner({"codex": runtime}, settings, context).run(job))

        run(work())
        return found[0]

    return asked


def row_of(done: RoleRun, part: str) -> dict[str, Any]:
    """The first row of the first tool's answer."""
    row: dict[str, Any] = json.loads(done.calls[0].output)[part][0]
    return row


def test_a_level_that_was_invented_is_repaired_once_and_the_next_gets_the_studys_price(ask: Ask) -> None:
    done = ask("chart", (STUDY,), {**CHART, "support": ["S17"]}, CHART)
    assert isinstance(done.outcome, Completed), done.outcome
    assert [turn.failure_kind for turn in done.turns] == ["invalid_output", None]
    assert (done.status, done.reason) == (ReportStatus.COMPLETED, None)
    (level,) = done.outcome.value["support_levels"]
    nearest = row_of(done, "studies")["support"][0]
    assert (level["id"], level["price"], level["touches"]) == ("S1", nearest["price"], nearest["touches"])


def test_an_invented_contract_is_repaired_with_the_chains_figures_or_fails(ask: Ask) -> None:
    wrong = {**OPTIONS, "contract": INVENTED}
    again = ask("options", (CHAIN,), wrong, OPTIONS)
    assert isinstance(again.outcome, Completed), again.outcome
    found = again.outcome.value
    (row,) = [row for row in json.loads(again.calls[0].output)["contracts"] if row["contract"] == PUT]
    assert (found["contract"], found["best_strike"], found["premium"]) == (PUT, 46.0, row["mid"])
    assert (found["source"], found["greeks"], found["verdict"]) == ("modelled", "modelled", "CONFIRMED")
    lost = ask("options", (CHAIN,), wrong, wrong)
    assert isinstance(lost.outcome, Failed)
    assert lost.outcome.kind == "invalid_output"
    assert f"no option answer of this turn has {INVENTED}" in lost.outcome.message
    assert lost.status is ReportStatus.FAILED, "a report that cannot be used is never neutral"


def test_a_selection_without_a_chain_fails_and_a_rejection_has_no_data(ask: Ask) -> None:
    """Apple has a hole in its prices, so no chain of it is modelled."""
    chain: Called = ("option_chain_get", {"symbols": ["AAPL"]})
    chosen = {**OPTIONS, "contract": "AAPL100917P00230000"}
    assert isinstance(ask("options", (chain,), chosen, chosen, symbol="AAPL").outcome, Failed)
    volatility: Called = ("volatility_get", {"symbols": ["AAPL"]})
    none = ask("options", (chain, volatility), {**OPTIONS, "recommendation": "reject"}, symbol="AAPL")
    assert isinstance(none.outcome, Completed)
    assert none.status is ReportStatus.NO_DATA, "a rejection for want of a chain is none"


def test_research_without_sources_has_no_data_whatever_it_concludes(ask: Ask) -> None:
    named = {"symbols": ["AFL"]}
    done = ask("research", (("news_list", named), ("company_get", named)), RESEARCH)
    assert isinstance(done.outcome, Completed)
    assert done.outcome.value["verdict"] == "CONFIRMED"
    assert (done.status, done.reason) == (ReportStatus.NO_DATA, "no data from news_list")
