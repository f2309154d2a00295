"""One role's turn, end to end: the real app-server, the real tools on the replay market, a model on loopback."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, OpenGate, RoleRun, Runner
from chordesk.agents.runtime import Observer
from chordesk.agents.subjects import validator_subject
from chordesk.agents.turn_answers import GO_ON, storable
from chordesk.models.answers import Completed, Failed, ReportStatus
from chordesk.models.errors import Postponed
from chordesk.models.events import ItemLifecycle
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import ToolCall
from chordesk.models.thesis import Thesis
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run, running
from tests.agents.observed import Seen
from tests.fakes.responses import Call, FakeResponses, Reply, Status, Text, answered
from tests.ordeal.tokens import model_call

GOOD = {"verdict": "CONFIRMED", "confidence": "high", "summary": "Steady.", "keyRisks": ["earnings"]}
BAD = {**GOOD, "verdict": "MAYBE"}
SIGNALS = Call("signals_get", '{"symbols":["IBM"]}')
OVERVIEW = Call("company_get", '{"symbols":["IBM"],"parts":["fundamentals"]}')
USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}


def reply(value: dict[str, Any], **usage: Any) -> Text:
    return Text(json.dumps(value), {**USAGE, **usage})


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"), provider="endpoint", provider_url="http://127.0.0.1:1/v1")


@pytest.fixture(scope="module")
def market(settings: Settings) -> MarketData:
    return build_market(settings)


@pytest.fixture
def model() -> Iterator[FakeResponses]:
    """Answers well without a tool unless a test scripts something else."""
    with FakeResponses(lambda _body: reply(GOOD)) as served:
        yield served


Ask = Callable[..., RoleRun]


@pytest.fixture
def witnessed() -> list[ToolCall]:
    return []


@pytest.fixture
def ask(
    model: FakeResponses, settings: Settings, market: MarketData, tmp_path: Path, redis_server: str,
    witnessed: list[ToolCall],
) -> Ask:  # fmt: skip
    """Runs one role on IBM and returns what came of it; the replies are queued first."""
    client = redis.Redis.from_url(redis_server)
    client.flushall()
    client.close()

    def asked(
        *replies: Reply, role: str = "quick", without: tuple[str, ...] = (), first: bool = False, **changes: Any
    ) -> RoleRun:
        model.script(*replies)
        used = settings.model_copy(update={"without_tools": without})
        found: list[RoleRun] = []

        async def work() -> None:
            async with running(model, tmp_path, redis_server, **changes) as runtime:
                found.append(await runner(runtime, used, market, witnessed)(job(role, used, first=first)))

        run(work())
        return found[0]

    return asked


def runner(
    runtime: CodexRuntime,
    settings: Settings,
    market: MarketData,
    witnessed: list[ToolCall] | None = None,
    observer: Observer | None = None,
) -> Callable[[Assignment], Awaitable[RoleRun]]:
    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    seen = witnessed if witnessed is not None else []
    given: dict[str, Any] = {"witness": lambda _turn, call: seen.append(call), "observer": observer}
    return Runner({"codex": runtime}, settings, context, **given).run


def job(role: str, settings: Settings, *, first: bool = False) -> Assignment:
    """first: with what code asks before the turn."""
    brief = validator_subject("IBM", "equity", [], settings, capital=100_000.0)
    known = ROLES[role] if first else dataclasses.replace(ROLES[role], first=None)
    return Assignment("run-1", "step-1", 2, known, "IBM", brief)


async def test_requests_on_two_subjects_are_the_same_up_to_the_question(
    model: FakeResponses, settings: Settings, market: MarketData, tmp_path: Path, redis_server: str
) -> None:
    """The app-server puts nothing of its own before what a provider may have read already."""
    one = job("quick", settings, first=True)
    brief = validator_subject("KO", "equity", [], settings, capital=100_000.0)
    other = dataclasses.replace(one, subject="KO", brief=brief)
    async with running(model, tmp_path, redis_server) as runtime:
        for asked in (one, other):
            await runner(runtime, settings, market)(asked)
    first, second = (model_call("quick", seen.body, "").parts for seen in model.calls())
    assert [kind for kind, _ in first] == ["tools", "schema", "instructions", "user", "answer"]
    assert first[:-2] == second[:-2]
    assert first[-2][1].replace("IBM", "KO") == second[-2][1]


async def test_calls_that_code_makes_before_a_turn_are_its_events(
    model: FakeResponses, settings: Settings, market: MarketData, tmp_path: Path, redis_server: str
) -> None:
    seen = Seen()
    model.script(SIGNALS, reply(GOOD))
    async with running(model, tmp_path, redis_server) as runtime:
        done = await runner(runtime, settings, market, observer=seen)(job("quick", settings, first=True))
    assert [call.tool for call in done.calls] == ["signals_get"] * 2
    assert seen.types == ["tool.started", "tool.completed"]
    assert {one.turn_id for one in seen.events} == {done.turns[0].codex_turn_id}
    assert [one.payload["by"] for one in seen.events] == ["code"] * 2
    (life,) = seen.lifecycles
    assert isinstance(life, ItemLifecycle)
    assert {one.item_id for one in seen.events} == {life.item_id}


def test_a_good_answer_is_completed_and_everything_is_on_record(ask: Ask, model: FakeResponses) -> None:
    done = ask(SIGNALS, OVERVIEW, reply(GOOD))
    assert isinstance(done.outcome, Completed)
    assert done.outcome.value == {
        "verdict": "CONFIRMED", "confidence": "high", "summary": "Steady.", "key_risks": ["earnings"],
        "thesis": Thesis().model_dump(mode="json"),
    }  # fmt: skip
    assert done.has_data
    assert (done.status, done.reason) == (ReportStatus.COMPLETED, None)
    (row,) = done.turns
    assert (row.run_id, row.step_id, row.attempt, row.ordinal) == ("run-1", "step-1", 2, 0)
    assert (row.role, row.subject, row.kept, row.thread_reason) == ("quick", "IBM", False, "initial")
    assert (row.provider, row.model) == ("endpoint", "endpoint:gpt-5.5")
    assert (row.status, row.outcome, row.failure_kind) == ("completed", "completed", None)
    assert (row.input_tokens, row.output_tokens, row.total_tokens) == (300, 60, 360)
    assert json.loads(row.text) == GOOD
    assert row.started_at < row.finished_at
    seen = model.calls()[0].metadata
    assert row.thread_id == seen["thread_id"]
    assert row.codex_turn_id == seen["turn_id"]
    wanted = {"run_id": "run-1", "step_id": "step-1", "attempt": "2", "role": "quick"}
    assert seen.items() >= wanted.items()
    first, second = done.calls
    assert [call.turn_id for call in done.calls] == [row.id, row.id]
    assert (first.ordinal, first.tool, first.arguments) == (0, "signals_get", {"symbols": ["IBM"]})
    assert (first.success, first.has_data) == (True, True)
    assert json.loads(first.output)["source"] == "replay"
    assert first.seconds > 0
    assert (second.tool, second.success, second.has_data) == ("company_get", False, False), "not its tool"


def test_an_answer_that_does_not_fit_gets_one_repair_turn_on_the_same_thread(ask: Ask, model: FakeResponses) -> None:
    done = ask(SIGNALS, reply(BAD), reply(GOOD, input_tokens=1000, total_tokens=1020))
    assert isinstance(done.outcome, Completed)
    assert done.has_data, "the tools of the first turn count for its repair"
    first, second = done.turns
    assert (first.outcome, first.failure_kind, second.outcome) == ("failed", "invalid_output", "completed")
    assert first.thread_id == second.thread_id
    assert [turn.ordinal for turn in done.turns] == [0, 1]
    assert [turn.total_tokens for turn in done.turns] == [240, 1020]
    assert [call.turn_id for call in done.calls] == [first.id]
    asked = model.calls()[-1].body["input"][-1]["content"][0]["text"]
    assert "verdict" in asked
    assert "MAYBE" in asked


def test_a_second_answer_that_does_not_fit_fails_with_its_text(ask: Ask, model: FakeResponses) -> None:
    done = ask(SIGNALS, reply(BAD), reply({**GOOD, "confidence": "very"}), reply(GOOD))
    outcome = done.outcome
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.retryable) == ("invalid_output", False)
    assert outcome.message.startswith("confidence: ")
    assert '"very"' in outcome.message
    assert len(outcome.message) < 600
    assert len(list(model.calls())) == 3, "there is no second repair"
    assert [turn.failure_kind for turn in done.turns] == ["invalid_output", "invalid_output"]
    status, reason = done.status, done.reason
    assert status is ReportStatus.FAILED
    assert str(reason).startswith("invalid_output: confidence")


def test_an_answer_that_ends_too_early_goes_on_once_on_the_same_thread(ask: Ask, model: FakeResponses) -> None:
    text = json.dumps(GOOD)
    done = ask(SIGNALS, Text(text[:40], USAGE), Text(text[40:], USAGE))
    assert isinstance(done.outcome, Completed)
    assert done.outcome.value["summary"] == "Steady."
    assert (done.status, done.reason) == (ReportStatus.COMPLETED, None)
    first, second = done.turns
    assert first.thread_id == second.thread_id
    assert [turn.failure_kind for turn in done.turns] == ["length", None]
    assert [turn.total_tokens for turn in done.turns] == [240, 120], "the tokens of both turns are on record"
    assert second.way == "put together of two pieces"
    asked = model.calls()[-1].body["input"][-1]["content"][0]["text"]
    assert asked == GO_ON


@pytest.mark.parametrize("text", ['{"verdict":"CONFIRMED"}', "BUY it all", json.dumps({**GOOD, "x": 1})])
def test_an_answer_that_does_not_fit_the_schema_is_not_taken(ask: Ask, text: str) -> None:
    done = ask(Text(text), Text(text))
    assert isinstance(done.outcome, Failed)
    assert done.outcome.kind == "invalid_output"
    assert text[:10] in done.outcome.message


def test_an_answer_without_any_tool_is_no_data(ask: Ask) -> None:
    done = ask(reply(GOOD))
    assert isinstance(done.outcome, Completed)
    assert not done.has_data
    assert (done.status, done.reason) == (ReportStatus.NO_DATA, "no data tool was called")


def test_what_code_asks_first_is_in_the_question_and_on_record(ask: Ask, model: FakeResponses) -> None:
    """One call of the model, which has as many answers as if it had asked, and may ask for more."""
    done = ask(reply(GOOD), role="risk", first=True)
    assert len(list(model.calls())) == 1
    assert [(call.tool, call.arguments) for call in done.calls] == [
        ("signals_get", {"symbols": ["IBM"]}), ("technicals_get", {"symbols": ["IBM"]}),
    ]  # fmt: skip
    assert {call.turn_id for call in done.calls} == {done.turns[0].id}
    assert (done.status, done.has_data) == (ReportStatus.COMPLETED, True)
    asked = model.calls()[-1].body["input"][-1]["content"][0]["text"]
    shown = json.loads(asked.partition("```answers\n")[2].partition("\n```")[0])
    assert [one["answer"] for one in shown] == [call.answer.payload for call in done.recorded]
    assert [one["answer"]["cite"][-2:] for one in shown] == ["-a", "-b"]
    more = ask(OVERVIEW, reply(GOOD), role="risk", first=True, without=("technicals_get",))
    assert [call.tool for call in more.calls] == ["signals_get", "company_get"]


def test_an_answer_on_sources_that_have_nothing_is_no_data(ask: Ask) -> None:
    """The replay market has no fundamentals and no headlines; what the model makes of that does not count."""
    news = Call("news_list", '{"symbols":["IBM"]}')
    done = ask(OVERVIEW, news, reply(GOOD), role="fundamentals")
    assert [(call.success, call.has_data) for call in done.calls] == [(True, False), (True, False)]
    assert "not available" in done.calls[0].output
    assert (done.status, done.reason) == (ReportStatus.NO_DATA, "no data from company_get, news_list")
    assert done.turns[0].kept


@pytest.mark.parametrize("role", ["quick", "risk"])
def test_calls_of_tools_that_a_turn_does_not_have_fail_on_record(
    ask: Ask, role: str, witnessed: list[ToolCall]
) -> None:
    """The app-server answers them without a word; also in a kept thread, and when that goes on. They are on record
    before their turn ends."""
    rogue = [Call("orders_submit", '{"symbol":"IBM"}'), Call("portfolio_get"), Call("signals_get", "{no"), SIGNALS]
    for _ in range(2):
        witnessed.clear()
        done = ask(*rogue, reply(GOOD), role=role, provider="endpoint")
        assert isinstance(done.outcome, Completed)
        assert [(call.id, call.turn_id) for call in witnessed] == [(one.id, done.turns[0].id) for one in done.calls[:3]]
        assert done.has_data
        assert [(call.tool, call.rogue) for call in done.calls] == [
            ("orders_submit", "unknown"), ("portfolio_get", "foreign"), ("signals_get", "malformed"),
            ("signals_get", None),
        ]  # fmt: skip
        assert [call.arguments for call in done.calls[:3]] == [{"symbol": "IBM"}, {}, {"text": "{no"}]
        assert [call.success for call in done.calls] == [False, False, False, True]
    assert done.turns[0].thread_reason == ("resumed" if role == "risk" else "initial")


def test_a_tool_that_the_settings_leave_out_is_neither_offered_nor_named(ask: Ask, model: FakeResponses) -> None:
    done = ask(SIGNALS, reply(GOOD), role="risk", without=("signals_get",))
    assert [(call.tool, call.rogue) for call in done.calls] == [("signals_get", "foreign")]
    (body, *_) = (call.body for call in model.calls())
    assert "company_get" in str(body)
    assert "signals_get" not in str(body)


def test_a_provider_that_fails_after_tools_leaves_their_record(ask: Ask, model: FakeResponses) -> None:
    model.policy = lambda body: Status(401) if answered(body) else SIGNALS
    done = ask()
    assert [call.tool for call in done.calls] == ["signals_get"]
    assert done.turns[0].total_tokens == 120
    assert done.status is ReportStatus.FAILED


async def test_a_conversation_that_cannot_be_opened_leaves_a_turn(settings: Settings, market: MarketData) -> None:
    """The registry of kept threads is away: nothing was asked, and that is a row."""
    found: list[RoleRun] = []
    nowhere = "redis://127.0.0.1:1/0"
    with FakeResponses() as model:
        async with running(model, settings.home, nowhere) as runtime:
            found.append(await runner(runtime, settings, market)(job("risk", settings)))
        assert list(model.calls()) == []
    (done,) = found
    assert isinstance(done.outcome, Failed)
    assert (done.outcome.kind, done.outcome.retryable) == ("redis_down", True)
    (row,) = done.turns
    assert (row.status, row.failure_kind, row.thread_id, row.codex_turn_id) == ("failed", "redis_down", None, None)
    assert (row.role, row.step_id, row.attempt) == ("risk", "step-1", 2)


class Resting(OpenGate):
    """A gate of a model that rests for so many hours; None for one that does not."""

    def __init__(self, hours: int | None) -> None:
        self.until = utcnow() + dt.timedelta(hours=hours) if hours is not None else None

    async def check(self) -> None:
        if self.until is not None:
            raise Postponed(f"the plan's limit, {self.until:%H}", 9.0, self.until)


@pytest.mark.parametrize("named", ["quick", "gpt-5.5", "codex:gpt-5.5"])
def test_a_named_substitute_answers_while_a_model_rests_and_is_on_record(
    model: FakeResponses, settings: Settings, market: MarketData, tmp_path: Path, redis_server: str, named: str
) -> None:
    used = settings.model_copy(update={"substitutes": f"{named}=codex:gpt-5.5-mini:low"})
    rests: dict[str, int | None] = {"gpt-5.5": 5, "gpt-5.5-mini": None}
    found: list[RoleRun] = []

    async def work() -> None:
        async with running(model, tmp_path, redis_server, roles_models=("gpt-5.5-mini",)) as runtime:
            one = Runner(
                {"codex": runtime},
                used,
                lambda run_id: ToolContext(market, market.clock, None, used, used.account, run_id),
                lambda wanted: Resting(rests[wanted.model]),
            )
            found.append(await one.run(job("quick", used)))
            rests["gpt-5.5-mini"] = 9
            with pytest.raises(Postponed) as both:
                await one.run(job("quick", used))
            assert both.value.until is not None
            assert both.value.until - utcnow() < dt.timedelta(hours=6), "the one that ends first"

    run(work())
    (turn,) = found[0].turns
    assert "gpt-5.5-mini" in turn.model
    assert "in place of" in (turn.way or "")
    assert model.requests[0].body["model"] == "gpt-5.5-mini"


def test_a_character_that_no_database_holds_is_replaced(ask: Ask) -> None:
    done = ask(SIGNALS, reply({**GOOD, "summary": "a\x00b", "keyRisks": ["c\x00"]}))
    assert isinstance(done.outcome, Completed)
    assert (done.outcome.value["summary"], done.outcome.value["key_risks"]) == ("a\ufffdb", ["c\ufffd"])
    assert storable({"a": ["\x00", 1, None]}) == {"a": ["", 1, None]}
