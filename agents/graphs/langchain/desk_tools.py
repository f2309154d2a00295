"""The desk's tools as tools of LangChain, for graphs and agents of others: prices as of a day, indicators, options,
news, and the paper account."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from langchain_core.tools import BaseTool, ToolException
from pydantic import ConfigDict

from chordesk.agents.program_tools import offer
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tools.registry import ToolAnswer, Toolset, ToolSpec


class DeskTool(BaseTool):
    """A tool of the desk. The message of a call has its JSON, and a picture as a block beside it; the artifact is the
    JSON as an object. An error is a message with status "error"."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    toolset: Any
    handle_tool_error: Any = True
    response_format: Any = "content_and_artifact"

    def _parse_input(self, tool_input: str | dict[str, Any], tool_call_id: str | None) -> str | dict[str, Any]:
        """Return the arguments under one name: those of a model may have any, also a parameter's of LangChain's."""
        if not isinstance(tool_input, dict):
            raise ToolException(f"the arguments of {self.name} are an object, not {tool_input!r:.80}")
        return {"given": dict(tool_input)}

    def _run(self, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        return _message(_finished(self.toolset.call(self.name, given)))

    async def _arun(self, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        return _message(await self.toolset.call(self.name, given))


def desk_tools(
    run_id: str | None = None,
    *,
    day: dt.date | None = None,
    names: Collection[str] | None = None,
    preview: bool = False,
    settings: Settings | None = None,
) -> list[BaseTool]:
    """Return the desk's read tools. They work without a running desk; none submits an order.

    run_id: a run of the desk: they see its market as of its day. None: the market of the settings (DESK_MARKET), on
    `day` where it replays. names: those to return; None for all that read. preview: add orders_preview, the dry run of
    an order of the run. settings: by default those of the environment.

    Raises UsageError, NotFound for a run there is not, DatabaseDown, and SettingError or NotConfigured for a market
    that cannot be had; a tool that was returned raises nothing into its graph.
    """
    toolset = offer(settings or load_settings(), run_id, day=day, names=names, preview=preview)
    return [_tool(spec, toolset) for spec in toolset.specs()]


def _tool(spec: ToolSpec, toolset: Toolset) -> DeskTool:
    return DeskTool(name=spec.name, description=spec.description, args_schema=dict(spec.input_schema), toolset=toolset)


def _message(answer: ToolAnswer) -> tuple[Any, dict[str, Any]]:
    if not answer.success:
        raise ToolException(answer.text())
    if answer.image is None:
        return answer.text(), answer.payload
    picture = base64.b64encode(answer.image.data).decode()
    block = {"type": "image", "base64": picture, "mime_type": answer.image.mime_type}
    return [{"type": "text", "text": answer.text()}, block], answer.payload


def _finished(work: Coroutine[Any, Any, ToolAnswer]) -> ToolAnswer:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(copy_context().run, asyncio.run, work).result()
