"""Memory in prompts: a thread that begins without history gets it, a resumed one does not get it twice.

The real app-server decides which of them a thread is; the stand-in for the model keeps what it was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from chordesk.agents.codex.launch import runtime_config
from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, Runner
from chordesk.agents.runtime import Opening
from chordesk.agents.subjects import screener_subject, trader_subject, validator_subject
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run, running
from tests.fakes.responses import FakeResponses, Reply, Text

AFRESH = "This conversation has no earlier turns."
ANSWERS = {
    "risk": {"verdict": "CONFIRMED", "confidence": "high", "summary": "Calm.", "keyRisks": []},
    "trader": {"actions": [], "reasoning": "Wait."},
    "screener_technical": {"candidates": []},
}
_SUBJECT = re.compile(r"```subject\n(.*?)\n```", re.DOTALL)


def answer(body: dict[str, Any]) -> Reply:
    role = body["input"][0]["content"][0]["text"].splitlines()[0].removeprefix("Role: ")
    return Text(json.dumps(ANSWERS[role if role in ANSWERS else "risk"]))


@pytest.fixture
def model() -> Iterator[FakeResponses]:
    with FakeResponses(answer) as served:
        yield served


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"), provider="endpoint", provider_url="http://127.0.0.1:1/v1")


@pytest.fixture(scope="module")
def market(settings: Settings) -> MarketData:
    return build_market(settings)


class Asked:
    """Request to the model in one turn: the thread's reason, the user messages of the whole thread."""

    def __init__(self, reason: str | None, body: Mapping[str, Any]) -> None:
        self.reason = reason
        self.texts = [item["content"][0]["text"] for item in body["input"] if item.get("role") == "user"]

    @property
    def subject(self) -> dict[str, Any]:
        """Of the turn itself."""
        found: dict[str, Any] = json.loads(_SUBJECT.findall(self.texts[-1])[-1])
        return found

    @property
    def starts_afresh(self) -> bool:
        return AFRESH in self.texts[-1]


Ask = Callable[..., list[Asked]]


@pytest.fixture
def ask(model: FakeResponses, settings: Settings, market: MarketData, tmp_path: Path, redis_server: str) -> Ask:
    """Runs one role once for each memory, in the same kept thread as far as the runtime lets it."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()

    def ask(
        role: str, *memories: str | None, openings: Mapping[int, Opening] | None = None, **limits: Any
    ) -> list[Asked]:
        found: list[Asked] = []

        async def work() -> None:
            async with running(model, tmp_path, redis_server, **limits) as runtime:
                runner = Runner({"codex": runtime}, settings, context)
                for number, memory in enumerate(memories):
                    opening: Opening = (openings or {}).get(number, "same")
                    job = Assignment("run-1", "step-1", 1, ROLES[role], "IBM", brief(role), opening, memory)
                    done = await runner.run(job)
                    assert done.outcome.outcome == "completed", done.outcome
                    found.append(Asked(done.turns[0].thread_reason, model.calls()[-1].body))

        run(work())
        return found

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, settings, settings.account, run_id)

    def brief(role: str) -> Mapping[str, Any]:
        if role in ("risk", "quick"):
            return validator_subject("IBM", "equity", [], settings, 1000.0)
        if role == "trader":
            return trader_subject("paper", [], {"buyingPower": 1000.0}, settings)
        return screener_subject("technical", 0, ["IBM"], settings, 1000.0)

    return ask


def test_a_thread_that_grew_too_long_hands_its_memory_to_the_next(ask: Ask) -> None:
    first, second, third = ask("trader", "before 1", "before 2", "before 3", max_thread_turns=2)
    assert [first.reason, second.reason, third.reason] == ["initial", "resumed", "rollover:turns"]
    assert (first.subject["memory"], first.starts_afresh) == ("before 1", True)
    assert ("memory" in second.subject, second.starts_afresh) == (False, False)
    assert len(second.texts) == 2, "the thread itself remembers"
    assert (third.subject["memory"], third.starts_afresh) == ("before 3", True)
    assert len(third.texts) == 1
    assert third.texts[0].count("before 3") == 1
    assert "before 1" not in third.texts[0]


def test_each_mode_has_limits_of_its_own(ask: Ask, settings: Settings, redis_server: str) -> None:
    """Those of the settings, over the two for all."""
    own = settings.model_copy(update={"thread_limits": "trader=turns:1;research=hours:0.0000001"})
    limits = {"mode_limits": runtime_config(own, "w").mode_limits}
    reasons = {role: [one.reason for one in ask(role, None, None, **limits)] for role in ANSWERS}
    assert reasons == {
        "risk": ["initial", "rollover:age"],
        "trader": ["initial", "rollover:turns"],
        "screener_technical": ["initial", "resumed"],
    }
    with redis.Redis.from_url(redis_server) as client:
        records = [json.loads(client.get(key) or b"") for key in client.scan_iter("desk:thread:*")]  # type: ignore[arg-type]
    assert sorted(record["mode"] for record in records) == ["research", "screener", "trader"]


def test_a_validator_gets_its_memory_once_in_each_question(ask: Ask) -> None:
    first, second, third = ask("risk", "before 1", "before 2", "before 3", max_thread_turns=2)
    assert [first.reason, second.reason, third.reason] == ["initial", "resumed", "rollover:turns"]
    for asked, memory, afresh in ((first, "before 1", True), (second, "before 2", False), (third, "before 3", True)):
        assert (asked.subject["memory"], asked.starts_afresh) == (memory, afresh)
        assert asked.texts[-1].count(memory) == 1
    assert len(third.texts) == 1


def test_a_role_without_a_kept_thread_gets_its_memory_too(ask: Ask) -> None:
    first, second = ask("quick", "before 1", None)
    assert (first.reason, second.reason) == ("initial", "initial")
    assert (first.subject["memory"], first.starts_afresh) == ("before 1", False)
    assert second.subject["memory"] is None


def test_a_fork_remembers_and_a_fresh_thread_in_place_of_a_failed_one_gets_the_memory(ask: Ask) -> None:
    _, forked, fresh = ask("trader", None, "before 2", "before 3", openings={1: "fork", 2: "fresh"})
    assert (forked.reason, "memory" in forked.subject, len(forked.texts)) == ("forked:retry", False, 2)
    assert (fresh.reason, fresh.subject["memory"], len(fresh.texts)) == ("retry", "before 3", 1)
