"""A looking glass: the rulebook on loopback that remembers which tools a request showed to the model."""

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

from agents.rulebook.server import answer
from models.errors import ServiceError
from tasks.services import ports

START_SECONDS = 10.0


class Glass:
    """Its base URL, and the tool names of every request it got."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{ports.LOOPBACK}:{port}/v1"
        self.shown: list[list[str]] = []

    async def respond(self, request: Request) -> Response:
        body = await request.body()
        tools = orjson.loads(body).get("tools") or []
        self.shown.append([str(tool.get("name") or tool.get("type")) for tool in tools])
        return Response(answer(body), media_type="text/event-stream")


@contextmanager
def looking_glass() -> Iterator[Glass]:
    """A glass that serves while the block runs. Raises ServiceError when it does not start."""
    port = ports.free_ports(1)[0]
    glass = Glass(port)
    app = Starlette(routes=[Route("/v1/responses", glass.respond, methods=["POST"])])
    config = uvicorn.Config(app, host=ports.LOOPBACK, port=port, lifespan="off", ws="none", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="looking-glass", daemon=True)
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not server.started:
        if time.monotonic() > until or not thread.is_alive():
            raise ServiceError(f"no server could be started on {ports.LOOPBACK}:{port}")
        time.sleep(0.02)
    try:
        yield glass
    finally:
        server.should_exit = True
        thread.join(5)
