"""Turns of the three analysts through the real app-server, with the real tools, on a model that a test scripts."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from PIL import Image

from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, RoleRun, Runner
from chordesk.agents.subjects import analyst_subject, validator_subject
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import Completed, Failed, ReportStatus
from chordesk.models.settings import Settings
from chordesk.tasks.worker.turns import status_of
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run, running
from tests.fakes.responses import Call, FakeResponses, Reply, Text

USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
STUDY = Call("chart_study_get", '{"symbols":["AFL"]}')
PICTURE = Call("chart_render", '{"symbols":["AFL"],"overlays":["levels","fib"]}')
CHAIN = Call("option_chain_get", '{"symbols":["AFL"],"minWeeklyRoc":0.005,"deltaMax":0.3}')
VOLATILITY = Call("volatility_get", '{"symbols":["AFL"]}')
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


def reply(value: dict[str, Any]) -> Text:
    return Text(json.dumps(value), USAGE)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    return Settings(
        home=home, provider="endpoint", provider_url="http://127.0.0.1:1/v1", replay_options="modelled"
    )  # fmt: skip


@pytest.fixture(scope="module")
def market(settings: Settings) -> MarketData:
    return build_market(settings)


@pytest.fixture
def model() -> Iterator[FakeResponses]:
    with FakeResponses(lambda _body: reply({})) as served:
        yield served


Ask = Callable[..., RoleRun]


@pytest.fixture
def ask(model: FakeResponses, settings: Settings, market: MarketData, tmp_path: Path, redis_server: str) -> Ask:
    """Runs one analyst on AFL on the replies, and returns what came of it."""
    client = redis.Redis.from_url(redis_server)
    client.flushall()
    client.close()

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    def asked(role: str, *replies: Reply, symbol: str = "AFL", **request: Any) -> RoleRun:
        model.script(*replies)
        candidate = validator_subject(symbol, "equity", [], settings, capital=100_000.0)
        brief = analyst_subject(candidate, AnalysisRequest(**request))
        job = Assignment("run-1", "step-1", 1, ROLES[role], symbol, brief)
        found: list[RoleRun] = []

        async def work() -> None:
            async with running(model, tmp_path, redis_server) as runtime:
                found.append(await Runner({"codex": runtime}, settings, context).run(job))

        run(work())
        return found[0]

    return asked


def outputs(model: FakeResponses) -> list[Any]:
    """What the model's last request has of its tools."""
    items = list(model.calls())[-1].body["input"]
    return [item["output"] for item in items if item["type"] == "function_call_output"]


def test_the_chart_analyst_sees_the_picture_and_its_levels_get_prices(ask: Ask, model: FakeResponses) -> None:
    done = ask("chart", STUDY, PICTURE, reply(CHART))
    assert isinstance(done.outcome, Completed), done.outcome
    assert status_of(done) == (ReportStatus.COMPLETED, None)
    assert done.turns[-1].kept is False, "a kept thread would send each picture again"
    study, (text, image) = outputs(model)
    nearest = json.loads(study if isinstance(study, str) else study[0]["text"])["studies"][0]["support"][0]
    (level,) = done.outcome.value["support_levels"]
    assert (level["id"], level["price"], level["touches"]) == ("S1", nearest["price"], nearest["touches"])
    assert (done.outcome.value["verdict"], done.outcome.value["extension_risk"]) == ("CONFIRMED", None)
    drawn = json.loads(text["text"])
    picture = Image.open(io.BytesIO(base64.b64decode(image["image_url"].partition(";base64,")[2])))
    assert picture.size == (drawn["image"]["width"], drawn["image"]["height"])
    assert [one.kind for one in done.artifacts] == ["image/png"]


def test_a_level_that_was_invented_is_repaired_once(ask: Ask, model: FakeResponses) -> None:
    done = ask("chart", STUDY, reply({**CHART, "support": ["S17"]}), reply(CHART))
    assert isinstance(done.outcome, Completed)
    assert [turn.failure_kind for turn in done.turns] == ["invalid_output", None]
    (asked,) = [text for text in texts(model) if "no chart answer of this turn has 'S17' of AFL" in text]
    assert "there are S1" in asked


def texts(model: FakeResponses) -> list[str]:
    items = list(model.calls())[-1].body["input"]
    return [part["text"] for item in items if item["type"] == "message" for part in item["content"] if "text" in part]


def test_the_options_analysts_contract_gets_the_chains_figures(ask: Ask, model: FakeResponses) -> None:
    done = ask("options", CHAIN, VOLATILITY, reply(OPTIONS))
    assert isinstance(done.outcome, Completed), done.outcome
    found = done.outcome.value
    chain = outputs(model)[0]
    rows = json.loads(chain if isinstance(chain, str) else chain[0]["text"])["contracts"]
    (row,) = [row for row in rows if row["contract"] == PUT]
    assert (found["best_strike"], found["premium"], found["delta"]) == (46.0, row["mid"], row["delta"])
    assert (found["source"], found["greeks"], found["verdict"]) == ("modelled", "modelled", "CONFIRMED")


@pytest.mark.parametrize(
    ("contract", "problem"),
    [
        (INVENTED, f"no option answer of this turn has {INVENTED}"),
        ("IBM100917P00120000", "is on IBM, and the subject is AFL"),
        ("AFL100716P00046000", "expired on 2010-07-16; today is 2010-08-12"),
        (None, "null with the recommendation select"),
    ],
)
def test_an_invented_contract_is_repaired_or_fails(
    ask: Ask, model: FakeResponses, contract: str | None, problem: str
) -> None:
    wrong = reply({**OPTIONS, "contract": contract})
    again = ask("options", CHAIN, wrong, reply(OPTIONS))
    assert isinstance(again.outcome, Completed)
    assert again.outcome.value["contract"] == PUT
    assert any(problem in text for text in texts(model))
    lost = ask("options", CHAIN, wrong, wrong)
    assert isinstance(lost.outcome, Failed)
    assert (lost.outcome.kind, problem in lost.outcome.message) == ("invalid_output", True)
    assert status_of(lost)[0] is ReportStatus.FAILED, "a report that cannot be used is never neutral"


def test_a_contract_beyond_the_limits_fails(ask: Ask) -> None:
    done = ask("options", CHAIN, *[reply(OPTIONS)] * 2, max_delta=0.05)
    assert isinstance(done.outcome, Failed)
    assert "and maxDelta is 0.05" in done.outcome.message


def test_a_selection_without_a_chain_fails_and_a_rejection_has_no_data(ask: Ask) -> None:
    """Apple has a hole in its prices, so no chain of it is modelled."""
    chain = Call("option_chain_get", '{"symbols":["AAPL"]}')
    lost = ask("options", chain, *[reply({**OPTIONS, "contract": "AAPL100917P00230000"})] * 2, symbol="AAPL")
    assert isinstance(lost.outcome, Failed)
    volatility = Call("volatility_get", '{"symbols":["AAPL"]}')
    none = ask("options", chain, volatility, reply({**OPTIONS, "recommendation": "reject"}), symbol="AAPL")
    assert isinstance(none.outcome, Completed)
    assert status_of(none)[0] is ReportStatus.NO_DATA, "a rejection for want of a chain is none"


def test_research_without_sources_has_no_data_whatever_it_concludes(ask: Ask) -> None:
    overview = Call("company_get", '{"symbols":["AFL"]}')
    done = ask("research", Call("news_list", '{"symbols":["AFL"]}'), overview, reply(RESEARCH))
    assert isinstance(done.outcome, Completed)
    assert done.outcome.value["verdict"] == "CONFIRMED"
    assert status_of(done) == (ReportStatus.NO_DATA, "no data from news_list")


def test_twenty_bars_are_no_chart(ask: Ask) -> None:
    study = Call("chart_study_get", '{"symbols":["AAPL"],"sessions":20}')
    done = ask("chart", study, reply({**CHART, "recommendation": "neutral", "support": []}), symbol="AAPL")
    assert isinstance(done.outcome, Completed)
    assert status_of(done) == (ReportStatus.NO_DATA, "nothing to judge by in the answers of chart_study_get")


def test_bars_of_the_models_own_are_refused(ask: Ask, model: FakeResponses) -> None:
    bars = Call("chart_study_get", '{"symbols":["AFL"],"bars":[{"open":1,"high":2,"low":1,"close":2}]}')
    done = ask("chart", bars, *[reply(CHART)] * 2)
    assert isinstance(done.outcome, Failed)
    assert "there are none: look at the chart first" in done.outcome.message
    assert "unknown argument 'bars'" in json.dumps(outputs(model))
