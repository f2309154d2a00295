"""The provider in a project's registry: the models it makes, the desk's settings in them, and what is asked twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from chordesk.agents.graphs.langchain import ephemeral_turns
from chordesk.agents.graphs.tradingagents import register
from chordesk.agents.graphs.tradingagents.project import find_project
from chordesk.agents.graphs.tradingagents.provider import ProviderChat, enter, options_of
from chordesk.models.settings import Settings
from tests.fakes.responses import FakeResponses, Refusal, Status, Text
from tests.patience import PATIENCE

pytestmark = pytest.mark.process
HELD = [
    (Refusal("I will not"), ephemeral_turns.RefusalError),
    (Status(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}), ephemeral_turns.RateLimited),
]


class Decision(BaseModel):
    rating: str


def settings(model: FakeResponses, home: Path, **more: Any) -> Settings:
    given = {"provider": "endpoint", "provider_url": model.url, "turn_seconds": PATIENCE, "step_deadline_seconds": 3600}
    return Settings(home=home, **{**given, **more})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("provider")


def client(name: str = "gpt-5.5", url: str | None = None, **more: Any) -> Any:
    """Return the chat model that the project makes for a name."""
    from tradingagents.llm_clients.openai_client import OpenAIClient

    return OpenAIClient(name, url, provider="codex", **more).get_llm()


def test_the_project_makes_models_with_the_desks_settings(project: Path, model: FakeResponses, home: Path) -> None:
    desk = settings(model, home, effort="high", summary="concise", provider_key="desk-key")
    enter(options_of(desk, verbosity="low"))
    calls: list[Any] = []
    with pytest.warns(UserWarning, match="ChatCodex has no temperature"):
        chat = client(temperature=0.2, callbacks=calls)
    assert isinstance(chat, ProviderChat)
    assert chat.timeout == PATIENCE
    assert isinstance(chat.invoke("hi").content, str)
    seen = model.requests[-1]
    assert seen.body["model"] == "gpt-5.5"
    assert seen.body["reasoning"] == {"effort": "high", "summary": "concise"}
    assert seen.body["text"]["verbosity"] == "low"
    assert seen.headers["authorization"] == "Bearer desk-key"


def test_another_address_gets_no_key_of_the_desk(project: Path, model: FakeResponses, home: Path) -> None:
    enter(options_of(settings(model, home, provider_url="http://127.0.0.1:9/v1", provider_key="desk-key")))
    chat = client(url=model.url)
    assert chat.base_url == model.url
    assert chat.api_key is None


def test_three_lines_register_it(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    monkeypatch.setenv("DESK_EFFORT", "low")
    register(summary="none")
    register(summary="none")  # twice is once
    chat = client()
    assert (chat.effort, chat.summary, chat.home) == ("low", "none", tmp_path)
    menus = find_project().menus
    assert menus is not None
    assert menus["codex"]["quick"][-1] == ("Custom model ID", "custom")


@pytest.mark.parametrize(("reply", "error"), HELD)
def test_a_final_error_is_asked_once(
    project: Path, model: FakeResponses, home: Path, reply: Any, error: type[ephemeral_turns.ChatError]
) -> None:
    enter(options_of(settings(model, home)))
    chat = client(max_retries=0)
    model.policy = lambda _body: reply
    from tradingagents.graph import structured_or_free_text

    with pytest.raises(error):
        structured_or_free_text(chat, "Decide")
    asked = len(list(model.calls()))
    model.policy = lambda _body: Text('{"answer":"later"}')
    assert chat.invoke("Decide").content == "later"  # held back once, for the call that follows at once
    assert len(list(model.calls())) == asked + 1


def test_a_refusal_is_held_for_its_own_messages_alone(project: Path, model: FakeResponses, home: Path) -> None:
    enter(options_of(settings(model, home)))
    chat = client(max_retries=0)
    structured = chat.with_structured_output(Decision)
    model.script(Refusal("no"), Text('{"answer":"yes"}'), Text('{"rating":"Buy"}'), Text('{"answer":"fine"}'))
    with pytest.raises(ephemeral_turns.RefusalError):
        asyncio.run(structured.ainvoke("Decide"))
    assert chat.invoke("Another").content == "yes"
    assert structured.invoke("Decide").rating == "Buy"  # asked anew: what was held is forgotten
    assert chat.invoke("Decide").content == "fine"
