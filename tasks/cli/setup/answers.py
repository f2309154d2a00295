"""The choice by the flags, and where they leave something open by the person at the terminal, with the model servers
that this machine has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chordesk.models.errors import KeyRefused, ModelMissing, ServerAway, UsageError, WrongApi
from chordesk.models.extras import require_extra
from chordesk.models.settings import Settings
from chordesk.models.text import inert
from chordesk.models.urls import masked
from chordesk.tasks.cli.output import print_line
from chordesk.tasks.cli.setup.choices import (
    MARKET,
    MODEL,
    OPENAI,
    PROVIDER,
    PROVIDERS,
    URL,
    Before,
    Choice,
    Flags,
    Key,
    Person,
    base_url,
    key_for,
    model_name,
    typed_key,
)

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


def find_servers(places: Sequence[Found]) -> list[Found]:
    return asyncio.run(_find(places))


def look_at_server(access: Access, *, responses: bool = False) -> Found:
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
            if (models := await _models_at(server, url)) is not None:
                return Found(url, models)
        if not responses or not await _takes_responses(server):
            await require_chat(server, await server.page(f"{server.url}/models"))
    return Found(access.url)


async def _models_at(server: ModelServer, url: str) -> tuple[str, ...] | None:
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


MARKETS: Mapping[str, str] = {
    "replay": "real daily prices of 2009 and 2010; no network",
    "yahoo": "Yahoo, today's prices and news",
}
MOST_SHOWN = 40  # models of a list
NO_TERMINAL = "is missing, and there is no terminal to ask at"


def decide(flags: Flags, before: Before, person: Person) -> Choice:
    """Return the choice. Raises UsageError for flags that are wrong, or missing without a terminal; ModelServerError
    and ModelMissing for what is not there."""
    flags.check()
    servers: list[Found] = []
    provider = flags.provider
    if provider is None:
        if not person.terminal:
            raise UsageError(f"--provider {NO_TERMINAL}", remedy=f"add --provider, one of: {', '.join(PROVIDERS)}")
        servers = find_servers(usual_places(os.environ))
        provider = _provider(before, person, servers)
        replace(flags, provider=provider).check()
    if provider == "rulebook":
        return Choice(provider)
    if provider == "codex":
        return _codex(flags, before, person)
    return _endpoint(flags, before, person) if provider == "endpoint" else _local(flags, before, person, servers)


def _provider(before: Before, person: Person, servers: Sequence[Found]) -> str:
    names = ", ".join(dict.fromkeys(each.name for each in servers)) or "none on its usual port"
    order = ("codex", "endpoint", "local", "rulebook")
    options = (
        "a Codex login: the models of a ChatGPT plan",
        "a key of an endpoint: OpenAI, or another with the Responses API or chat completions",
        f"a model server: Ollama, llama.cpp, vLLM, LM Studio (found here: {names})",
        "none of them: the rulebook, fixed rules without a model",
    )
    now = before.of(PROVIDER)
    default = order.index(now) if now in order else 2 if servers else None
    return order[person.choose("What do you have?", "--provider", options, default)]


def _codex(flags: Flags, before: Before, person: Person) -> Choice:
    known = before.of(MODEL) if before.of(PROVIDER) == "codex" else None
    default = known or str(Settings.model_fields["model"].default)
    if flags.model is None and flags.provider is None:
        return Choice("codex", model=person.ask("Model", "--model", default, model_name))
    return Choice("codex", model=model_name(flags.model or default))


def _endpoint(flags: Flags, before: Before, person: Person) -> Choice:
    known = before.of(URL) if before.of(PROVIDER) == "endpoint" else None
    url = base_url(flags.url) if flags.url is not None else person.ask("Base URL", "--url", known or OPENAI, base_url)
    found, key = _reached(flags, before, person, url, hosted=True)
    provider = "endpoint"
    if flags.look and not has_responses(_access(before, found.url, key)):
        reason = f"{masked(found.url)} has no Responses API"
        if flags.provider is not None:
            raise WrongApi(reason, remedy="give --provider local, which asks it by chat completions")
        print_line(f"{reason}: it is asked by chat completions, as a model server of your own (DESK_PROVIDER=local)")
        provider = "local"
    return Choice(provider, found.url, _model(flags, before, person, found, strict=False), key)


def _local(flags: Flags, before: Before, person: Person, servers: Sequence[Found]) -> Choice:
    url = flags.url
    if url is None:
        servers = servers or find_servers(usual_places(os.environ))
        if not person.terminal:
            here = ", ".join(each.url for each in servers) or "no model server"
            raise UsageError(f"--url {NO_TERMINAL}", remedy=f"add --url; found here: {here}")
        taken = _taken(flags, before, person, servers)
        if taken is not None and taken[1] is not None:
            return Choice("local", taken[0].url, taken[1], key_for(flags, before, person, taken[0].url, needed=False))
        url = taken[0].url if taken is not None else person.ask("Base URL", "--url", None, base_url)
    found, key = _reached(flags, before, person, base_url(url), hosted=False)
    return Choice("local", found.url, _model(flags, before, person, found), key)


def _taken(flags: Flags, before: Before, person: Person, servers: Sequence[Found]) -> tuple[Found, str | None] | None:
    """Return what the person takes of the servers found: a server and its model, None for one that has yet to be named.
    None: another server."""
    if not servers:
        ports = ", ".join(f"{port} ({name})" for name, port in USUAL)
        print_line(f"no model server answers on {LOOPBACK} at {ports}")
        return None
    offers: list[tuple[Found, str | None]] = []
    for each in servers:
        models = [one for one in each.models or () if flags.model in (None, one)]
        offers += [(each, model) for model in models[:MOST_SHOWN]] or [(each, None)]
    wide = max(len(each.url) for each, _ in offers)
    lines = [f"{each.name:<10} {each.url:<{wide}}  {_offer(each, model)}" for each, model in offers]
    now = [(each.url, model) for each, model in offers]
    known = (before.of(URL) or "", before.of(MODEL))
    place = person.choose("Which model?", "--url", [*lines, "another URL"], now.index(known) if known in now else 0)
    return offers[place] if place < len(offers) else None


def _offer(server: Found, model: str | None) -> str:
    return inert(model) if model is not None else "asks for a key" if server.needs_key else "has no model yet"


def _reached(flags: Flags, before: Before, person: Person, url: str, *, hosted: bool) -> tuple[Found, Key]:
    """Return what answers at a URL, and the key for it; a key that it wants or refuses is asked for again. hosted: it
    will want one, and the Responses API will do. Raises ModelServerError."""
    key = key_for(flags, before, person, url, needed=hosted)
    if not flags.look:
        return Found(url), key
    while True:
        try:
            return look_at_server(_access(before, url, key), responses=hosted), key
        except KeyRefused as refused:
            if not person.terminal or flags.key_env or flags.key_file:
                raise KeyRefused(str(refused.args[0]), remedy="give the right one by --key-env or --key-file") from None
            print_line(str(refused.args[0]))
            key = typed_key(before, person, url)


def _access(before: Before, url: str, key: Key) -> Access:
    return Access(url, key.text, before.settings.codex_ca_file)


def _model(flags: Flags, before: Before, person: Person, found: Found, *, strict: bool = True) -> str:
    """Return the name of a model that the server has, as far as it lists any. strict: it has no others; some endpoints
    list none of the names that are a customer's own."""

    def read(text: str) -> str:
        return _of_list(model_name(text), found) if strict else model_name(text)

    if flags.model is not None:
        return read(flags.model)
    if not person.terminal:
        has = f"; {masked(found.url)} has {_listed(found.models)}" if found.models else ""
        raise UsageError(f"--model {NO_TERMINAL}", remedy=f"add --model{has}")
    known = before.of(MODEL) if before.of(URL) == found.url else None
    models, usual = found.models or (), str(Settings.model_fields["model"].default)
    known = known or (usual if usual in models else None)
    if not 0 < len(models) <= MOST_SHOWN:
        return person.ask("Model", "--model", known, read)
    default = models.index(known) if known in models else 0 if len(models) == 1 else None
    return models[person.choose("Which model?", "--model", [inert(each) for each in models], default)]


def _of_list(model: str, found: Found) -> str:
    if found.models is None or model in found.models or f"{model}:latest" in found.models:
        return model
    close = get_close_matches(model, found.models, 1)
    remedy = f"take {close[0]}, or another of them" if close else "take one of them"
    if urlsplit(found.url).port == OLLAMA_PORT:
        remedy += f", or fetch it: `ollama pull {model}`"
    raise ModelMissing(f"{masked(found.url)} has no model {model!r}; it has {_listed(found.models)}", remedy=remedy)


def _listed(models: Sequence[str] | None) -> str:
    shown = ", ".join(inert(each) for each in (models or ())[:MOST_SHOWN]) or "none"
    return f"{shown} and more" if len(models or ()) > MOST_SHOWN else shown


def market(flags: Flags, before: Before, person: Person) -> str | None:
    """Return the market that was chosen; None leaves it as it is. Raises UsageError."""
    if flags.market is not None:
        return _usable(flags.market, before)
    if not person.terminal or flags.provider is not None:
        return None
    now = before.of(MARKET) or before.settings.market
    names = [*MARKETS, *([now] if now not in MARKETS else [])]
    options = [f"{name:<7} {MARKETS.get(name, 'as it is now')}" for name in names]
    return _usable(names[person.choose("Which market?", "--market", options, names.index(now))], before)


def _usable(name: str, before: Before) -> str:
    if name not in (*MARKETS, "files"):
        raise UsageError(f"--market {name!r} is none", remedy=f"one of: {', '.join((*MARKETS, 'files'))}")
    if name == "files" and before.settings.data is None:
        raise UsageError("--market files reads a folder of your own, and none is set", remedy="set DESK_DATA first")
    if name == "yahoo":
        require_extra("yahoo", "--market yahoo")
    return name
