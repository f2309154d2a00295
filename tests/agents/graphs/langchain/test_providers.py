"""One string chooses the provider: the same program on a model server, a hosted provider and the login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel

from chordesk.agents.graphs.langchain import runtimes
from chordesk.agents.graphs.langchain.ephemeral_turns import LoginError, ModelUnavailable
from chordesk.langchain import ChatCodex, ChatError, close_bridges
from tests.fakes.chat import FakeChat, answer
from tests.fakes.local_server import LocalServer
from tests.parts import of_feature
from tests.patience import PATIENCE

served = of_feature("tests.agents.litellm.kit:served")

pytestmark = pytest.mark.process


@tool
def price(symbol: str) -> str:
    """Get the price of a symbol."""
    return f"{symbol} costs 12.5"


class Rating(BaseModel):
    """A rating of a symbol."""

    rating: str


def agent_answers(model: ChatCodex) -> tuple[str, list[str]]:
    """Return the last answer of an agent, and the results of its tools."""
    agent = create_react_agent(model, [price])
    said = agent.invoke({"messages": [("user", "What does 'IBM' cost?")]})["messages"]
    return said[-1].content, [str(one.content) for one in said if isinstance(one, ToolMessage)]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_bridges()


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChat]:
    with served(monkeypatch) as model:
        yield model


def reply_of(body: dict[str, Any]) -> dict[str, Any]:
    """Call the tool once, then answer; in the schema of the tool that takes the answer."""
    (asked,) = [one.get("function") or one for one in body["tools"]]
    schema = asked.get("parameters") or asked["input_schema"]
    if "rating" in schema["properties"]:
        return {"rating": "buy"}
    if "answer" in schema["properties"]:
        return {"answer": "12.5"}
    if "IBM costs" in json.dumps(body["messages"]):
        return {"reply": {"mode": "final", "content": "12.5"}}
    calls = [{"name": "price", "arguments": {"symbol": "IBM"}}]
    return {"reply": {"mode": "tool_calls", "content": "", "tool_calls": calls}}


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-4-5", "openai:gpt-5.5", "litellm:openai/gpt-5.5"])
def test_an_agent_runs_on_a_hosted_provider(hosted: FakeChat, tmp_path: Path, name: str) -> None:
    hosted.policy = lambda body: answer(reply_of(dict(body)))
    model = ChatCodex(model=name, home=tmp_path, timeout=PATIENCE)
    assert agent_answers(model) == ("12.5", ["IBM costs 12.5"])
    assert model.with_structured_output(Rating).invoke("Rate IBM") == Rating(rating="buy")
    assert "".join(str(one.content) for one in model.stream([HumanMessage("hi")])) == "12.5"


def test_an_agent_runs_on_a_server_of_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer(kind="ollama", models=("qwen3:8b",)) as server:
        monkeypatch.setitem(runtimes.SERVERS, "ollama", server.url)
        model = ChatCodex(model="ollama:qwen3:8b", home=tmp_path, timeout=PATIENCE)
        assert (model.provider, model.model_name) == ("local", "qwen3:8b")
        assert isinstance(model.invoke("hi").content, str)
        assert server.chats()[-1].body["model"] == "qwen3:8b"


def test_a_provider_there_is_not_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="the provider 'olama', which there is not") as caught:
        ChatCodex(model="olama:qwen3", home=tmp_path).invoke("hi")
    assert "ollama" in caught.value.remedy
    with pytest.raises(ModelUnavailable, match="names the provider 'openai' and no model"):
        ChatCodex(model="openai:", home=tmp_path).invoke("hi")
    other = ChatCodex(model="qwen3:8b", base_url="http://127.0.0.1:1/v1")
    assert other.model_name == "qwen3:8b"  # a name with a colon, where an address says whose it is


def test_a_missing_key_and_an_address_that_is_not_taken_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(LoginError, match="GEMINI_API_KEY") as caught:
        ChatCodex(model="google_genai:gemini-3-pro", home=tmp_path).invoke("hi")
    assert isinstance(caught.value, ChatError)
    whole = f"{caught.value} {caught.value.remedy}"
    assert "this program" in whole
    assert not any(word in whole for word in ("workers", "desk login", "api_key", "DESK_")), whole
    with pytest.raises(ValueError, match="api_key is not taken"):
        ChatCodex(model="anthropic:claude-sonnet-4-5", api_key="sk")


def test_a_relative_home_is_of_the_folder_of_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalServer(models=("small",)) as server:
        model = ChatCodex(model="small", provider="local", base_url=server.url, home=Path("own"), timeout=PATIENCE)
        assert isinstance(model.invoke("hi").content, str)
    assert (tmp_path / "own").is_dir()
