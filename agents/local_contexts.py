"""The contexts of local models before a run: a role whose smallest prompt its model cannot hold is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import cache

import structlog

from chordesk.agents.fitting import require_context
from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.agents.local_models import facts_of
from chordesk.agents.role_models import LOCAL, RoleModel, local_url, role_models
from chordesk.agents.roles import ROLES
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings

LOOK_SECONDS = 5.0
log = structlog.get_logger(__name__)


def require_contexts(settings: Settings, roles: Iterable[str]) -> None:
    """Raise UsageError for a role whose smallest prompt does not fit into the context of its model. A context that
    nobody knows, and that the server does not name, is no reason."""
    models = role_models(settings)
    size_of = cache(lambda model: context_of(settings, model))
    for key in roles:
        role, model = ROLES.get(key), models.get(key)
        if role is None or model is None or model.runtime != LOCAL:
            continue
        if (context := size_of(model)) is not None:
            require_context(role, model, settings, context)


def context_of(settings: Settings, model: RoleModel) -> int | None:
    """Return the tokens of a local model's context as its server says now, without a model call, else as they are kept;
    None where neither is known. Not on an event loop."""
    kept, seen = facts_of(settings, model), _look(settings, model)
    if seen is None or seen.context is None:
        return kept.context if kept is not None else None
    now = {"context": seen.context, "slots": seen.slots or (kept.slots if kept is not None else None)}
    if kept is not None and (kept.context, kept.slots) != tuple(now.values()):
        keep_facts(settings.home, kept.model_copy(update=now))
    return seen.context


def _look(settings: Settings, model: RoleModel) -> ServerFacts | None:
    from chordesk.agents.gateway.probe import look_at_server  # its library is for desks with such a server alone

    url, key = local_url(settings), settings.provider_key if settings.provider == LOCAL else None
    assert url is not None, "models_in_use refuses a local model without a server"
    asking = look_at_server(url, key.get_secret_value() if key else None, model.model, settings.codex_ca_file)
    try:
        return asyncio.run(asyncio.wait_for(asking, LOOK_SECONDS))
    except (DeskError, TimeoutError) as error:
        log.info("server.not_seen", model=model.model, error=str(error) or "it does not answer in time")
        return None
