"""Model servers: the ports where they usually listen on this machine, and what one at a URL has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chordesk.models.errors import KeyRefused, ServerAway

if TYPE_CHECKING:
    from chordesk.agents.gateway.wire import ModelServer

USUAL: tuple[tuple[str, int], ...] = (("Ollama", 11434), ("llama.cpp", 8080), ("vLLM", 8000), ("LM Studio", 1234))
OLLAMA_PORT = 11434
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("", "0.0.0.0", "::")  # addresses that a server listens on, and that nobody can ask
OLLAMA_HOST = "OLLAMA_HOST"


@dataclass(frozen=True, slots=True)
class Access:
    """A base URL with what it takes to ask there. ca_file: PEM of trust roots in place of the system's."""

    url: str
    key: str | None = field(default=None, repr=False)
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A model server. models: None where it lists none. needs_key: it says nothing without a key. name: of the program
    that usually listens there."""

    url: str
    models: tuple[str, ...] | None = None
    needs_key: bool = False
    name: str = ""


def usual_places(environ: Mapping[str, str]) -> list[Found]:
    """Return where servers usually are on loopback, and before them where OLLAMA_HOST says that Ollama is."""
    found = [Found(f"http://{LOOPBACK}:{port}/v1", name=name) for name, port in USUAL]
    own = ollama_url(environ.get(OLLAMA_HOST, ""))
    return found if own is None else [Found(own, name="Ollama"), *(each for each in found if each.url != own)]


def ollama_url(host: str) -> str | None:
    """Return the base URL of what OLLAMA_HOST names, as Ollama reads it; None where it names nothing that can be
    asked."""
    text = host.strip().strip("\"'")
    scheme, _, rest = text.rpartition("://")
    try:
        parts = urlsplit(f"{scheme or 'http'}://{rest}")
        port = parts.port or {"http": 80, "https": 443}.get(scheme, OLLAMA_PORT)
    except ValueError:
        return None
    if not text or parts.scheme not in ("http", "https"):
        return None
    name = LOOPBACK if (parts.hostname or "") in EVERYWHERE else str(parts.hostname)
    name = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/')}/v1"


def find(places: Sequence[Found]) -> list[Found]:
    """Return the model servers that answer at these places."""
    return asyncio.run(_find(places))


def look(access: Access, *, responses: bool = False) -> Found:
    """Return what answers at a URL, which gets /v1 where the server has its models there.

    responses: a server with the Responses API alone will do. Raises ServerAway, KeyRefused, WrongApi.
    """
    return asyncio.run(_look(access, responses))


def has_responses(access: Access) -> bool:
    """Return whether a server has the Responses API. It is asked for no answer. Raises ServerAway."""
    return asyncio.run(_has_responses(access))


async def _find(places: Sequence[Found]) -> list[Found]:
    answers = await asyncio.gather(*(_answers(each) for each in places))
    return [each for each in answers if each is not None]


async def _answers(place: Found) -> Found | None:
    # Loaded here, and below: the HTTP library takes 0.3 s, and not every choice has use for it.
    from chordesk.agents.gateway.look import rows_of
    from chordesk.agents.gateway.wire import reaching

    try:
        async with reaching(place.url, None) as server:
            page = await server.page(f"{server.url}/models")
    except ServerAway:
        return None
    if (rows := rows_of(page)) is not None:
        return Found(place.url, tuple(str(row["id"]) for row in rows), name=place.name)
    return Found(place.url, needs_key=True, name=place.name) if isinstance(server.refusal(page), KeyRefused) else None


async def _look(access: Access, responses: bool) -> Found:
    from chordesk.agents.gateway.look import require_chat
    from chordesk.agents.gateway.wire import reaching

    async with reaching(access.url, access.key, access.ca_file) as server:
        for url in (server.url,) if urlsplit(server.url).path else (f"{server.url}/v1", server.url):
            if (models := await _listed(server, url)) is not None:
                return Found(url, models)
        if not responses or not await _takes_responses(server):
            await require_chat(server, await server.page(f"{server.url}/models"))
    return Found(access.url)


async def _listed(server: ModelServer, url: str) -> tuple[str, ...] | None:
    from chordesk.agents.gateway.look import rows_of

    rows = rows_of(await server.page(f"{url}/models"))
    return None if rows is None else tuple(str(row["id"]) for row in rows)


async def _has_responses(access: Access) -> bool:
    from chordesk.agents.gateway.wire import reaching

    async with reaching(access.url, access.key, access.ca_file) as server:
        return await _takes_responses(server)


async def _takes_responses(server: ModelServer) -> bool:
    from chordesk.agents.gateway.look import has_endpoint

    page = await server.page(f"{server.url}/responses", {})
    return page.kind == "text/event-stream" or has_endpoint(page)
