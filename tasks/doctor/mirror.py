"""A server on loopback that answers as the rulebook and records the tools in each request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chordesk.agents.rulebook.server import answer
from chordesk.models.errors import ServiceError
from chordesk.tasks.services.plan import LOOPBACK, free_ports

START_SECONDS = 10.0


class RequestMirror:
    """The server's base URL, and the tool names of every request it received."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}/v1"
        self.shown: list[list[str]] = []

    async def respond(self, request: Request) -> Response:
        body = await request.body()
        tools = orjson.loads(body).get("tools") or []
        self.shown.append([str(tool.get("name") or tool.get("type")) for tool in tools])
        return Response(answer(body), media_type="text/event-stream")


@contextmanager
def request_mirror() -> Iterator[RequestMirror]:
    """Yield a mirror that serves while the block runs. Raises ServiceError when it does not start."""
    port = free_ports(1)[0]
    mirror = RequestMirror(port)
    app = Starlette(routes=[Route("/v1/responses", mirror.respond, methods=["POST"])])
    config = uvicorn.Config(app, host=LOOPBACK, port=port, lifespan="off", ws="none", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="request-mirror", daemon=True)
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not server.started:
        if time.monotonic() > until or not thread.is_alive():
            raise ServiceError(f"no server could be started on {LOOPBACK}:{port}")
        time.sleep(0.02)
    try:
        yield mirror
    finally:
        server.should_exit = True
        thread.join(5)
