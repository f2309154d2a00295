"""The HTTP service: the FastAPI application with its routes and the guard around them, and the server with its socket,
whose shutdown no reader of events can delay."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from typing import Any

import orjson
from celery import Celery
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic.json_schema import models_json_schema
from starlette.middleware.gzip import GZipMiddleware

from chordesk.models import features
from chordesk.models.database.store import require_current
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.events import Envelope
from chordesk.models.settings import Settings, running_desk
from chordesk.models.urls import is_loopback
from chordesk.tasks import life
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.named_tokens import Tokens
from chordesk.tasks.redis_clients import message_key, redis_url
from chordesk.tasks.web import programs
from chordesk.tasks.web.connection_limits import LimitedServer
from chordesk.tasks.web.context import ServiceContext, fleet_of
from chordesk.tasks.web.idempotency import KeptAnswers
from chordesk.tasks.web.page.assets import Assets
from chordesk.tasks.web.page.page_sessions import Sessions
from chordesk.tasks.web.problems import MEDIA_TYPE, Problem, add_handlers
from chordesk.tasks.web.routes import accounts, desk, events, orders, runs, threads
from chordesk.tasks.web.security import Guard, JsonRoute, Token, host_names, token_of
from chordesk.tasks.worker.messages import WorkerNotifier

VERSION = "1"  # of the interface
SMALL_BYTES = 1_000  # what fits one packet gains nothing by compression
GZIP_LEVEL = 4
_OWN = (
    desk.router,
    desk.fleet_router,
    desk.schedule_router,
    accounts.router,
    runs.router,
    runs.course_router,
    runs.reports_router,
    accounts.symbols_router,
    runs.artifacts_router,
    threads.router,
    orders.router,
    orders.trading_router,
    events.router,
    desk.session_router,
)


def _with_features(own: tuple[APIRouter, ...]) -> tuple[APIRouter, ...]:
    """Add the routes of features. A package with a route that there is already is left out: it would never be asked."""
    found = list(own)
    known: dict[tuple[str, str], str | None] = {one: None for router in own for one in _routes(router)}
    for feature, routers in features.parts("routes", kind=APIRouter):
        new = [one for router in routers for one in _routes(router)]
        if again := [one for one in new if one in known or new.count(one) > 1]:
            first = features.whose(known.get(again[0]))
            features.skip(feature, f"among the routes there is {' '.join(again[0])} already{first}")
            continue
        if plain := [route for router in routers for route in router.routes if not isinstance(route, JsonRoute)]:
            where = getattr(plain[0], "path", plain[0])
            features.skip(feature, f"its route {where} is no JsonRoute: give its APIRouter route_class=JsonRoute")
            continue
        found += routers
        known |= dict.fromkeys(new, feature.name)
    return tuple(found)


def _routes(router: APIRouter) -> list[tuple[str, str]]:
    """Return method and path of each route; which name a path gives its parts is the same to a request."""
    routes = (route for route in router.routes if isinstance(route, APIRoute))
    return [(method, _PART.sub("{}", route.path)) for route in routes for method in sorted(route.methods or ())]


_PART = re.compile(r"{[^}]*}")
ROUTERS = _with_features(_OWN)


def routed() -> FastAPI:
    """Return the application with its routes, before any desk is behind it. Its documentation pages are off: they would
    load scripts from other servers. Its description is made once: 235 kB that take 8 ms."""
    app = FastAPI(
        title="Chordesk",
        version=VERSION,
        summary="Runs of a desk and their results, requests that wait for a person, and live events.",
        openapi_url=None,
        # The guard checks the token before anything else; this only documents it.
        dependencies=[Depends(HTTPBearer(auto_error=False, description="the token; `desk api` prints its place"))],
        responses={"default": {"model": Problem, "description": "The reason why the request failed."}},
    )
    for router in (programs.router, *ROUTERS):
        app.include_router(router)
    plain = app.openapi
    app.openapi = cache(lambda: _described(plain()))  # type: ignore[method-assign]
    return app


def create_app(context: ServiceContext, token: Token) -> FastAPI:
    """Return the service of one desk."""
    app = routed()
    app.state.context = context
    app.state.fleet = fleet_of(context)
    app.state.kept = KeptAnswers(context.store)
    add_handlers(app, [route for router in ROUTERS for route in router.routes])
    app.state.tokens = tokens = Tokens(token.value, context.store)
    app.add_middleware(GZipMiddleware, minimum_size=SMALL_BYTES, compresslevel=GZIP_LEVEL)
    app.add_middleware(Assets)
    app.add_middleware(Guard, hosts=host_names(context.settings), tokens=tokens, sessions=context.sessions)
    written = cache(lambda: orjson.dumps(app.openapi()))

    async def described(request: Request) -> Response:
        return Response(written(), media_type="application/json")

    app.add_route("/openapi.json", described)
    return app


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """What FastAPI cannot derive: the media type of errors, and the envelopes of streams."""
    for path in schema["paths"].values():
        for operation in path.values():
            content = operation["responses"]["default"]["content"]
            (problem,) = content.values()
            operation["responses"]["default"]["content"] = {MEDIA_TYPE: problem}
    schema["paths"]["/session"]["post"]["security"] = []  # its code stands for the token
    _, envelope = models_json_schema([(Envelope, "serialization")], ref_template="#/components/schemas/{model}")
    schema["components"]["schemas"].update(envelope["$defs"])
    return schema


GONE_SECONDS = 30.0  # without an acknowledgement of what was sent
BACKLOG = 1024
SEND_BYTES = 128 * 1024  # that the kernel keeps for one reader


class ApiServer(LimitedServer):
    """The service's server. On shutdown it ends the event streams first: uvicorn waits for open responses."""

    def __init__(self, app: FastAPI, context: ServiceContext, announce: Callable[[], None]) -> None:
        super().__init__(app, announce, programs=True, lifespan=False)
        self._context = context

    async def on_tick(self, counter: int) -> bool:
        life.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._context.feed.close()
        await super().shutdown(sockets)
        await self._context.sessions.close()


def require_servable(settings: Settings) -> None:
    """Raise SettingError for an unsafe address or a Redis that needs a key, RedisDown without a Redis."""
    require_safe(settings)
    message_key(settings)
    redis_url(settings)


def serve(settings: Settings, port: int, announce: Callable[[str, str], None], *, watched: bool = False) -> None:
    """Serve until SIGINT or SIGTERM. announce: called with the URL and the token's place once the server answers.
    watched: serve metrics and health too, if a port is set for them.

    Raises what `require_servable` does, SettingError for a token's file that cannot be used, UsageError for an address
    that cannot be bound, DatabaseDown when there is no desk here to serve.
    """
    from chordesk.tasks.services import plan  # of the whole desk's processes

    require_servable(settings)
    address, key = redis_url(settings), message_key(settings)
    require_current(settings.database)
    plan.prepare_folders(settings.home)
    token = token_of(settings)
    desk = Desk(settings, "api")
    with closing(desk), _listening(settings, port) as listening:
        if watched:
            desk.watch.serve("api")
        notifier = WorkerNotifier(settings, _worker_app)  # runs are opened with it too
        context = ServiceContext(desk, Feed(desk.store, address), notifier, Sessions(address, key=key))
        url = url_of(listening)

        def started() -> None:
            desk.watch.health.ready_by(lambda: None)
            running_desk.write_api(settings.home, url)
            announce(url, token.where)

        ApiServer(create_app(context, token), context, started).run([listening])


def _worker_app(settings: Settings) -> Celery:
    from chordesk.tasks.worker.app import create_app  # with the first run that is opened or worker that is asked

    return create_app(settings)


def _listening(settings: Settings, port: int) -> socket.socket:
    if port == 0 and (last := running_desk.last_api_port(settings.home)):
        with suppress(UsageError):
            return bind(settings.api_host, last)
    return bind(settings.api_host, port)


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def require_safe(settings: Settings) -> None:
    """Raise SettingError when other machines could reach the service and no DESK_API_TOKEN is set."""
    if not is_loopback(settings.api_host) and settings.api_token is None:
        raise SettingError(
            f"DESK_API_HOST={settings.api_host!r} lets other machines in, and DESK_API_TOKEN is not set",
            remedy="set DESK_API_TOKEN as well, or leave DESK_API_HOST at 127.0.0.1",
        )


def bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host!r} port {port}: {error.strerror or error}",
            remedy="set another DESK_API_PORT or DESK_API_HOST, or give --port; port 0 takes a free one",
        ) from None
    # Connections inherit it. asyncio sets it on sockets that it opens itself alone; without it an answer in two writes
    # waits some 40 ms for the reader's delayed acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Else the kernel takes megabytes for each reader that takes nothing, and the service writes them.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    # A reader that closes is noticed at once. A machine that vanished acknowledges nothing: without this the kernel
    # tries for a quarter of an hour, and the stream is read for as long. A stream sends at least every 5 s.
    if sys.platform == "linux":
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(GONE_SECONDS * 1000))
    return listening
