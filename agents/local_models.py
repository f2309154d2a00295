"""What is known of the models of local servers: the facts that were kept, and the turns that they take at once."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from chordesk.agents.gateway.facts import ServerFacts, known_facts
from chordesk.agents.role_models import LOCAL, RoleModel, local_url
from chordesk.models.settings import Settings
from chordesk.models.urls import is_loopback, without_login


def facts_of(settings: Settings, model: RoleModel) -> ServerFacts | None:
    """Return the kept facts of a local model; None of any other, and of one whose server was not asked yet."""
    url = local_url(settings)
    return known_facts(settings.home, url, model.model) if model.runtime == LOCAL and url is not None else None


def turns_at_once(settings: Settings, model: RoleModel) -> int | None:
    """Return the limit on a model's turns in flight, None without one: that of the settings, else of a local model the
    slots of its server, 1 where they are unknown."""
    if settings.model_turns is not None:
        return settings.model_turns
    if model.runtime != LOCAL:
        return None
    facts = facts_of(settings, model)
    return (facts.slots if facts is not None else None) or 1


def line_of(settings: Settings, model: RoleModel) -> str:
    """Return the name of the line that a model's turns wait in: the model's own, or without DESK_MODEL_TURNS its local
    server's, whose slots all its models share. A server on loopback is each host's own."""
    url = local_url(settings)
    if settings.model_turns is not None or model.runtime != LOCAL or url is None:
        return model.model
    server = without_login(url)
    return f"{server} on {socket.gethostname()}" if is_loopback(urlsplit(server).hostname or "") else server
