"""Options of a role's model: several models in one runtime, effort and summary, and images."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.models.errors import RedisDown
from chordesk.models.settings import Settings
from chordesk.tools.registry import ToolContext, ToolImage, Toolset, ToolSpec
from chordesk.tools.toolsets import MAX_IMAGE_BYTES, TurnTools
from tests.agents.codex.kit import Codex, config, one_turn, spec
from tests.fakes.responses import Call, FakeResponses
from tests.tools.market.far_market import FarMarket

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_roles_of_one_runtime_have_models_and_efforts_of_their_own(model: FakeResponses, codex: Codex) -> None:
    changes = {"roles_models": ("gpt-5.6-sol", "local/llm:8b"), "summary": "concise"}
    async with codex(**changes) as runtime:
        await one_turn(runtime, replace(spec(), effort="high"))
        await one_turn(runtime, replace(spec(model="gpt-5.6-sol"), effort="max"))
        await one_turn(runtime, spec(model="local/llm:8b"))
    first, second, third = model.calls()
    assert [call.body["model"] for call in (first, second, third)] == ["gpt-5.5", "gpt-5.6-sol", "local/llm:8b"]
    assert [call.tools for call in (first, second, third)] == [["quotes_get"]] * 3
    assert first.body["reasoning"] == {"effort": "high", "summary": "concise"}
    assert second.body["reasoning"]["effort"] == "max"


class NoArguments(BaseModel):
    pass


def chart_tools(home: Path, data: bytes) -> Toolset:
    """Return one of the desk's own tools, with an image in its answer, bound as in a turn."""
    chart = ToolSpec(
        "quotes_get", "Draws.", NoArguments,
        lambda context, arguments: ({"available": True}, ToolImage(data, "image/png")),
    )  # fmt: skip
    market = FarMarket()
    context = ToolContext(market, market.clock, None, Settings(home=home), "paper", None)
    return TurnTools([chart], context, 30, lambda arguments, answer: None)


@pytest.mark.parametrize("size", [MAX_IMAGE_BYTES, MAX_IMAGE_BYTES + 1])
async def test_a_tool_of_the_desk_returns_an_image_up_to_its_limit(
    model: FakeResponses, codex: Codex, tmp_path: Path, size: int
) -> None:
    data = PIXEL.ljust(size, b"\0")
    model.script(Call("quotes_get", "{}"))
    async with codex() as runtime:
        assert (await one_turn(runtime, spec(chart_tools(tmp_path, data)))).status == "completed"
    output = next(item for item in model.calls()[-1].body["input"] if item["type"] == "function_call_output")["output"]
    if size > MAX_IMAGE_BYTES:
        assert "the image is 1024.0 KB, more than 1024 KB" in str(output)
        assert "input_image" not in str(output)
    else:
        text, image = output
        assert text["text"] == '{"available":true}'
        assert base64.b64decode(image["image_url"].split(";base64,")[1]) == data


async def test_a_runtime_without_redis_runs_turns_of_threads_that_are_not_kept(
    model: FakeResponses, tmp_path: Path
) -> None:
    runtime = CodexRuntime(config(model, tmp_path))
    await runtime.start()
    try:
        assert (await one_turn(runtime, spec())).status == "completed"
        with pytest.raises(RedisDown, match="a kept thread needs a Redis"):
            await one_turn(runtime, spec(keep=True))
    finally:
        await runtime.close(5)
