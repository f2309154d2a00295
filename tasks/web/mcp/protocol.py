"""The server of the Model Context Protocol: the tools that there are, and a call's answer as text and picture."""

from __future__ import annotations

import base64
import importlib.metadata
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server

from chordesk.tools.registry import ToolAnswer, Toolset, ToolSpec

INSTRUCTIONS = (
    "Read tools of a trading desk: prices and indicators as of the time in asOf, charts, option chains, news, filings "
    "and the paper account. What is missing is named in `missing`. No tool submits an order."
)


def protocol_server(toolset: Toolset) -> Server[Any, Any]:
    """Return a server of these tools. An error of a call is its result, with isError."""
    server: Server[Any, Any] = Server("chordesk", version=_version(), instructions=INSTRUCTIONS)

    async def listed() -> list[types.Tool]:
        return [_tool(spec) for spec in toolset.specs()]

    async def called(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        return _result(await toolset.call(name, arguments))

    server.list_tools()(listed)
    # The desk's own check names each wrong argument and the allowed ones.
    server.call_tool(validate_input=False)(called)
    return server


def _tool(spec: ToolSpec) -> types.Tool:
    hints = types.ToolAnnotations(readOnlyHint=True, destructiveHint=False, idempotentHint=True)
    return types.Tool(
        name=spec.name, description=spec.description, inputSchema=dict(spec.input_schema), annotations=hints
    )


def _result(answer: ToolAnswer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text())]
    if answer.image is not None:
        picture = base64.b64encode(answer.image.data).decode()
        content.append(types.ImageContent(type="image", data=picture, mimeType=answer.image.mime_type))
    return types.CallToolResult(content=content, isError=not answer.success)


def _version() -> str:
    try:
        return importlib.metadata.version("chordesk")
    except importlib.metadata.PackageNotFoundError:  # run from its folder
        return "0"
