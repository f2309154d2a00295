"""The two majors of the protocol's SDK: how a server of either gets its handlers, and how it answers an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from mcp import types
from mcp.server.lowlevel import Server
from pydantic import BaseModel
from starlette.requests import Request

from chordesk.models.errors import DeskError

# The HTTP request (None over standard input) and the message's parameters, to its result.
Handler = Callable[[Request | None, Any], Awaitable[Any]]
# By the method's name as the second major's server takes it: call_tool, list_tools, read_resource and so on.
Handlers = Mapping[str, Handler]
M = TypeVar("M", bound=BaseModel)

SECOND = not hasattr(Server, "list_tools")  # its server takes handlers, and has no decorators
INVALID_PARAMS = -32602  # of JSON-RPC; since 2026-07-28 also what answers an unknown resource


def made(kind: type[M], **fields: Any) -> M:
    """A message's part, by the names that the protocol itself has: the majors' own names of fields differ."""
    return kind.model_validate(fields)


def server_with(name: str, version: str, instructions: str, handlers: Handlers) -> Server[Any, Any]:
    """A handler's DeskError is answered as invalid parameters with its text: the second major would hide the text."""
    if SECOND:
        given = {f"on_{method}": _of_second(handler) for method, handler in handlers.items()}
        return Server(name, version=version, instructions=instructions, **given)
    server: Server[Any, Any] = Server(name, version=version, instructions=instructions)
    for method, handler in handlers.items():
        request = getattr(types, "".join(word.title() for word in method.split("_")) + "Request")
        server.request_handlers[request] = _of_first(server, handler)
    return server


def _of_second(handler: Handler) -> Callable[[Any, Any], Awaitable[Any]]:
    async def answered(context: Any, params: Any) -> Any:
        try:
            return await handler(context.request, params)
        except DeskError as error:
            from mcp.shared.exceptions import MCPError

            raise MCPError(code=INVALID_PARAMS, message=str(error)) from None

    return answered


def _of_first(server: Server[Any, Any], handler: Handler) -> Callable[[Any], Awaitable[Any]]:
    async def answered(message: Any) -> Any:
        try:
            return types.ServerResult(await handler(server.request_context.request, message.params))
        except DeskError as error:
            from mcp.shared.exceptions import McpError

            raise McpError(types.ErrorData(code=INVALID_PARAMS, message=str(error))) from None

    return answered
