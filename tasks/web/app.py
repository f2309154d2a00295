"""The application: routes, errors in one shape, and the guard around all of it."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from pydantic.json_schema import models_json_schema

from models.events import Envelope
from tasks.web import routes_events, routes_orders, routes_runs, routes_threads
from tasks.web.address import names_of
from tasks.web.problems import MEDIA_TYPE, Problem, add_handlers
from tasks.web.security import Guard
from tasks.web.site import Site
from tasks.web.tokens import Token

VERSION = "1"  # of the interface
ROUTERS = (routes_runs.router, routes_threads.router, routes_orders.router, routes_events.router)


def create_app(site: Site, token: Token) -> FastAPI:
    """The service of one desk. Its pages of documentation are off: they would load scripts from elsewhere."""
    app = FastAPI(
        title="Chordesk",
        version=VERSION,
        summary="What a desk has run, what waits for a person, and its events as they happen.",
        docs_url=None,
        redoc_url=None,
        # The guard checks the token, before anything else is looked at; here it is named for the documentation.
        dependencies=[Depends(HTTPBearer(auto_error=False, description="the token that `desk api` names"))],
        responses={"default": {"model": Problem, "description": "Why the request was not answered."}},
    )
    app.state.site = site
    for router in ROUTERS:
        app.include_router(router)
    add_handlers(app)
    app.add_middleware(Guard, hosts=names_of(site.settings), token=token.value)
    plain = app.openapi
    app.openapi = lambda: _described(plain())  # type: ignore[method-assign]
    return app


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """What FastAPI cannot know: errors have a media type of their own, and streams are made of envelopes."""
    for path in schema["paths"].values():
        for operation in path.values():
            content = operation["responses"]["default"]["content"]
            (said,) = content.values()
            operation["responses"]["default"]["content"] = {MEDIA_TYPE: said}
    _, envelope = models_json_schema([(Envelope, "serialization")], ref_template="#/components/schemas/{model}")
    schema["components"]["schemas"].update(envelope["$defs"])
    return schema
