"""The rulebook as a model's API on loopback only: POST /v1/responses (server-sent events), POST /v1/chat/completions
(one JSON, or server-sent events) and GET /v1/models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chordesk.agents.rulebook.case import Call, Case, Payload
from chordesk.agents.rulebook.chat import answer_schema, completion, parse_chat
from chordesk.agents.rulebook.plain import PROGRAM, plain
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.rulebook.wire import BadRequest, case_of, fill, read, role_of, schema_of, stream, text_of
from chordesk.models.errors import SettingError
from chordesk.models.urls import is_loopback

MODEL = "rulebook"
CONCURRENT = 2048  # connections waiting to be taken: a screen's widest wave opens them at once
KEEP_ALIVE_SECONDS = 60
STOP_SECONDS = 2


def answer(body: bytes) -> bytes:
    """Return the event stream that answers one request body. Raises BadRequest."""
    request, items = read(body, "input")
    schema = schema_of(request)
    if schema is not None and role_of(request.get("instructions"), items) == PROGRAM:
        return stream(request, len(body), plain(schema, items, text_of))
    case = case_of(request.get("instructions"), items, request.get("tools"))
    return stream(request, len(body), _move(case, schema))


def answer_chat(body: bytes) -> bytes:
    """Return the completion that answers one request body, as a stream where it asks for one. Raises BadRequest."""
    request, case = parse_chat(body)
    return completion(request, len(body), _move(case, answer_schema(request)))


def _move(case: Case, schema: Payload | None) -> Call | Payload:
    if (policy := POLICIES.get(case.role)) is None:
        raise BadRequest("unknown_role", f"no rule for the role {case.role!r}; there are {', '.join(sorted(POLICIES))}")
    move = policy(case)
    return move if isinstance(move, Call) or schema is None else fill(schema, move)


def create_app(latency_seconds: float = 0.0) -> Starlette:
    """Return the application; each response waits latency_seconds before its first byte, in place of a model's time."""
    if not 0 <= latency_seconds <= 600:
        raise SettingError(f"rulebook latency of {latency_seconds} s: give 0 to 600")

    async def answered(request: Request, answer: Callable[[bytes], bytes]) -> Response:
        body = await request.body()
        try:
            found = answer(body)
        except BadRequest as error:
            problem = {"type": "invalid_request_error", "code": error.code, "message": str(error)}
            return JSONResponse({"error": problem}, 400)
        if latency_seconds:
            await asyncio.sleep(latency_seconds)
        media_type = "application/json" if found.startswith(b"{") else "text/event-stream"
        return Response(found, media_type=media_type, headers={"cache-control": "no-cache"})

    async def responses(request: Request) -> Response:
        return await answered(request, answer)

    async def chat(request: Request) -> Response:
        return await answered(request, answer_chat)

    async def models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "chordesk"}]})

    return Starlette(
        routes=[
            Route("/v1/responses", responses, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
        ]
    )


def build_server(host: str = "127.0.0.1", port: int = 0, latency_seconds: float = 0.0) -> uvicorn.Server:
    """Return a server that does not run yet; its run() serves until SIGINT or SIGTERM.

    Raises SettingError for an address other hosts could reach.
    """
    if not is_loopback(host):
        raise SettingError(f"rulebook host {host!r}: it listens on loopback only, give 127.0.0.1 or ::1")
    config = uvicorn.Config(
        create_app(latency_seconds), host=host, port=port, lifespan="off", http="httptools", ws="none",
        access_log=False, log_level="warning", backlog=CONCURRENT, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )  # fmt: skip
    return uvicorn.Server(config)
