"""The FastAPI application: its routes, errors in one shape, and the guard around all of it."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from pydantic.json_schema import models_json_schema

from chordesk.models.events import Envelope
from chordesk.tasks.web.context import ServiceContext
from chordesk.tasks.web.fleet import fleet_of
from chordesk.tasks.web.idempotency import KeptAnswers
from chordesk.tasks.web.page import assets
from chordesk.tasks.web.problems import MEDIA_TYPE, Problem, add_handlers
from chordesk.tasks.web.programs import connection
from chordesk.tasks.web.routes import (
    accounts,
    artifacts,
    board,
    desk,
    events,
    fleet,
    orders,
    questions,
    runs,
    scores,
    session,
    threads,
    trading,
)
from chordesk.tasks.web.routes.history import course, reports, symbols, transcripts
from chordesk.tasks.web.security import Guard, host_names
from chordesk.tasks.web.tokens import Token

VERSION = "1"  # of the interface
ROUTERS = (
    desk.router,
    fleet.router,
    accounts.router,
    runs.router,
    course.router,
    reports.router,
    symbols.router,
    scores.router,
    artifacts.router,
    board.router,
    threads.router,
    transcripts.router,
    orders.router,
    trading.router,
    questions.router,
    events.router,
    session.router,
    assets.router,
)


def create_app(context: ServiceContext, token: Token) -> FastAPI:
    """Return the service of one desk. Its documentation pages are off: they would load scripts from other servers."""
    app = FastAPI(
        title="Chordesk",
        version=VERSION,
        summary="Runs of a desk and their results, requests that wait for a person, and live events.",
        docs_url=None,
        redoc_url=None,
        # The guard checks the token before anything else; this only documents it.
        dependencies=[Depends(HTTPBearer(auto_error=False, description="the token; `desk api` prints its place"))],
        responses={"default": {"model": Problem, "description": "The reason why the request failed."}},
    )
    app.state.context = context
    app.state.program_token = connection.ProgramToken(token.value)
    app.state.fleet = fleet_of(context)
    app.state.kept = KeptAnswers(context.settings)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(connection.router)
    add_handlers(app, [route for router in ROUTERS for route in router.routes])
    app.add_middleware(Guard, hosts=host_names(context.settings), token=token.value, sessions=context.sessions)
    plain = app.openapi
    app.openapi = lambda: _described(plain())  # type: ignore[method-assign]
    return app


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI schema with what FastAPI cannot derive: the media type of errors, and the envelopes of
    streams."""
    for path in schema["paths"].values():
        for operation in path.values():
            content = operation["responses"]["default"]["content"]
            (problem,) = content.values()
            operation["responses"]["default"]["content"] = {MEDIA_TYPE: problem}
    schema["paths"]["/session"]["post"]["security"] = []  # its code stands for the token
    _, envelope = models_json_schema([(Envelope, "serialization")], ref_template="#/components/schemas/{model}")
    schema["components"]["schemas"].update(envelope["$defs"])
    return schema
