"""The Model Context Protocol over streamable HTTP, behind the guard of the HTTP service: its token, Host and Origin."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chordesk.models.database.store import Store, require_current
from chordesk.models.errors import DatabaseDown, SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.urls import is_loopback
from chordesk.tasks.named_tokens import MCP_PATH, Tokens
from chordesk.tasks.services import plan
from chordesk.tasks.web.app import bind, url_of
from chordesk.tasks.web.connection_limits import LimitedServer, is_too_deep
from chordesk.tasks.web.mcp.protocol import RunResources, protocol_server
from chordesk.tasks.web.problems import answer, problem
from chordesk.tasks.web.security import Guard, host_names, token_of
from chordesk.tools.registry import Toolset

MOST_BYTES = 1024 * 1024  # of a request; a tool's arguments are a few thousand
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]*):)?(?P<port>\d{1,5})")
LOOPBACK = "127.0.0.1"


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, where the host may be left out. Raises UsageError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise UsageError(f"--http {text!r} is no address", remedy="give PORT or HOST:PORT; port 0 takes a free one")
    return (found["host"] or LOOPBACK).strip("[]"), int(found["port"])


def serve_http(
    settings: Settings, toolset: Toolset, runs: RunResources, address: str, announce: Callable[[str, str], None]
) -> None:
    """Serve until SIGINT or SIGTERM. announce: called with the URL and the token's place once the server answers.
    Raises UsageError for an address that cannot be bound, SettingError for one that lets other machines in without
    DESK_API_TOKEN, and for a token's file that cannot be used."""
    host, port = address_of(address)
    if not is_loopback(host) and settings.api_token is None:
        raise SettingError(
            f"--http {address} lets other machines in, and DESK_API_TOKEN is not set",
            remedy="set DESK_API_TOKEN as well, or listen on 127.0.0.1",
        )
    here = settings.model_copy(update={"api_host": host})
    plan.prepare_folders(settings.home)
    token = token_of(settings)
    with _bound(host, port) as listening:
        url = f"{url_of(listening)}{MCP_PATH}"
        app = mcp_app(toolset, runs, host_names(here), _tokens(settings, token.value))
        LimitedServer(app, lambda: announce(url, token.where), programs=False, lifespan=True).run([listening])


def _tokens(settings: Settings, own: str) -> Tokens:
    """Without a database of this version there are no named ones."""
    try:
        require_current(settings.database)
    except DatabaseDown:
        return Tokens(own, None)
    return Tokens(own, Store(settings.database))


def mcp_app(toolset: Toolset, runs: RunResources, hosts: frozenset[str], tokens: Tokens) -> ASGIApp:
    """One path, POST alone, nothing kept between two requests."""
    manager = StreamableHTTPSessionManager(
        protocol_server(toolset, runs), json_response=True, stateless=True, max_request_body_size=MOST_BYTES
    )

    @asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Route(MCP_PATH, _Endpoint(manager), methods=["POST"])], lifespan=running)
    app.router.default = _nothing_here
    return Guard(app, hosts, tokens)


class _Endpoint:
    """The path's application: Starlette takes a function for one of its own kind."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, _sound(receive), send)


def _sound(receive: Receive) -> Receive:
    """Hand over a whole body at once; one that the SDK would answer with a traceback in the log as one that ends too
    early. A longer one than is allowed is handed over as it comes: the SDK refuses it."""

    async def received() -> Message:
        body, message = b"", await receive()
        while message["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body", False) or len(body) > MOST_BYTES:
                known = len(body) > MOST_BYTES or _is_sound(body)
                return {**message, "body": body if known else b"{"}
            message = await receive()
        return message

    return received


def _is_sound(body: bytes) -> bool:
    """Return whether it is JSON of UTF-8 that is not nested too deep, and can be written as such again."""
    try:
        text = body.decode()
        if not is_too_deep(text):
            json.dumps(json.loads(text), ensure_ascii=False).encode()
            return True
    except ValueError:
        pass
    return False


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        found = problem(HTTPStatus.NOT_FOUND, "not_found", "there is nothing at this path", f"POST to {MCP_PATH}")
        await answer(found)(scope, receive, send)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except UsageError as error:
        raise UsageError(str(error.args[0]), remedy="give another --http; port 0 takes a free one") from None
