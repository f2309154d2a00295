"""Web search by a role's model: which roles may, on which hosts, and the record of what they searched and opened.

The search is the provider's: the desk asks for it with the role's thread, and sees the queries and the pages opened,
not what they gave.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from chordesk.agents.answers import RecordedCall
from chordesk.agents.role_models import DEFAULT_RUNTIME, role_models
from chordesk.agents.roles import ROLES
from chordesk.agents.runtime import WebSearch
from chordesk.models.errors import SettingError
from chordesk.models.events.envelope import short
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import configured_market
from chordesk.tools.registry import ToolAnswer

TOOL = "web_search"
OFF = "off"
MOST_RESULTS = 20


def searching_roles(settings: Settings) -> frozenset[str]:
    """Return the roles with a model that may search the web. Raises SettingError for one that there is not, or that has
    a model of a runtime without such a tool."""
    if settings.web_search.strip() in ("", OFF):
        return frozenset()
    named = [part.strip() for part in settings.web_search.split(",") if part.strip()]
    models = role_models(settings)
    for role in named:
        if role not in ROLES:
            raise _wrong(f"has {role!r}", f"write {OFF}, or roles by comma: {', '.join(ROLES)}")
        if (runtime := models[role].runtime) != DEFAULT_RUNTIME:
            remedy = f"leave {role} out, or give it a model of the runtime {DEFAULT_RUNTIME} in DESK_ROLE_MODELS"
            raise _wrong(f"has {role}, and web search is not supported by its runtime {runtime}", remedy)
    return frozenset(named)


def check_web_search(settings: Settings) -> None:
    """Raise SettingError for roles that may not search, and for any on a day of the past: the web of today is later."""
    roles = searching_roles(settings)
    if roles and (market := configured_market(settings)).day is not None:
        what = f"is {settings.web_search} with market={market.name}, a day of the past: the web of today is later"
        raise _wrong(what, f"set DESK_WEB_SEARCH={OFF}, or a market in real time such as DESK_MARKET=yahoo")


def search_hosts(settings: Settings, role: str, day: dt.date | None) -> tuple[str, ...] | None:
    """Return the hosts that a role's model may search, each with those below it; none of them is any host. None: it may
    not search. day: the one that the run's market replays."""
    if day is not None or role not in searching_roles(settings):
        return None
    return tuple(name.lower() for part in settings.web_search_hosts.split(",") if (name := part.strip()))


def recorded(search: WebSearch, hosts: Sequence[str] | None) -> RecordedCall:
    """Return a search as a tool call. It has no data of ours, and has failed where a page is of no allowed host."""
    urls = [url for url in (search.url, *search.results) if url]
    outside = [url for url in urls if hosts and not _within(url, hosts)]
    error = "this role may not search the web" if hosts is None else ""
    if outside:
        error = f"not of the hosts of DESK_WEB_SEARCH_HOSTS: {', '.join(short(url) for url in outside[:MOST_RESULTS])}"
    payload: dict[str, Any] = {
        "action": search.action,
        "url": search.url and short(search.url),
        "results": [short(url) for url in search.results[:MOST_RESULTS]] or None,
        "note": "the provider's own search: its results are not reported to the desk" if not search.results else None,
        **({"error": error, "success": False} if error else {}),
    }
    arguments = {"queries": [short(query) for query in search.queries]}
    return RecordedCall(arguments, ToolAnswer(TOOL, not error, payload, False, False, 0.0), search.at)


def _within(url: str, hosts: Sequence[str]) -> bool:
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    return any(host == name or host.endswith(f".{name}") for name in hosts)


def _wrong(what: str, remedy: str) -> SettingError:
    return SettingError(f"web_search (DESK_WEB_SEARCH) {what}", remedy=remedy)
