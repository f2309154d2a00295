"""What a model server says of itself, without a model call: which server it is, its models, context and slots.

Each kind says it in a place of its own: llama.cpp at /props, Ollama under /api, LM Studio at /api/v0/models, vLLM and
most others in /v1/models.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

import structlog

from chordesk.agents.gateway.facts import ServerWords
from chordesk.agents.gateway.server_requests import PAUSES, STREAM, ModelServer, Page, names_of, told_error
from chordesk.models.errors import KeyRefused, ModelMissing, ServerAway, WrongApi
from chordesk.models.urls import masked

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
# Pages that tell one kind from another.
_PAGES = {"llama.cpp": "/props", "ollama": "/api/version", "lmstudio": "/api/v0/models", "vllm": "/version"}
_CONTEXT_NAMES = ("max_model_len", "context_length", "max_context_length", "context_window")
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_NO_ENDPOINT = re.compile(r"(?i)unexpected endpoint|not found|no route|cannot (get|post)|unknown (url|endpoint|path)")


class Look(ServerWords):
    single: bool = False  # it has one model, which answers to any name
    # tools, parallel: what the model's template supports
    tools: bool | None = None
    parallel: bool | None = None

    def has(self, model: str) -> bool:
        return not self.models or any(same_name(model, one) for one in self.models)


def same_name(model: str, listed: str) -> bool:
    """A tag may be left out where it is the latest, and of a file its folder and ending."""
    if "*" in listed:  # as a router lists all that it passes on
        return fnmatchcase(model, listed)
    return listed in (model, f"{model}:latest") or PurePath(listed).name in (model, f"{model}.gguf")


async def look(server: ModelServer, model: str) -> Look:
    """Return what a server says of itself and of a model. Raises ServerAway, KeyRefused, WrongApi, ModelMissing."""
    page = await server.page(f"{server.url}/models", seconds=LOOK_SECONDS)
    rows = rows_of(page)
    if rows is None:
        await require_chat(server, page)
        rows = []
    pages = await asyncio.gather(*(_quietly(server, path) for path in _PAGES.values()))
    said = dict(zip(_PAGES, pages, strict=True))
    found = await _found(server, model, rows, said)
    if found.has(model) or found.single:
        return found
    raise missing(server, model, found)


async def _found(server: ModelServer, model: str, rows: list[Mapping[str, Any]], said: Mapping[str, Any]) -> Look:
    if "default_generation_settings" in said["llama.cpp"]:
        return await _llama(server, model, rows, said["llama.cpp"])
    if said["ollama"].get("version"):
        return await _ollama(server, model, rows, str(said["ollama"]["version"]))
    listed = said["lmstudio"].get("data")
    if isinstance(listed, list) and any("max_context_length" in one for one in _mappings(listed)):
        return _lmstudio(model, _mappings(listed))
    plain = _plain(model, rows)
    if said["vllm"].get("version") and any("max_model_len" in row for row in rows):
        return plain.model_copy(update={"server": "vllm", "version": str(said["vllm"]["version"]), "single": False})
    return plain


async def _llama(server: ModelServer, model: str, rows: list[Mapping[str, Any]], props: Mapping[str, Any]) -> Look:
    if props.get("role") == "router":  # it starts a server a model, which may not run yet
        own = await _quietly(server, f"/props?model={model}&autoload=false")
        props = {**props, **own} if "total_slots" in own else {**props, "default_generation_settings": {}}
    settings, caps = _mapping(props.get("default_generation_settings")), _mapping(props.get("chat_template_caps"))
    found = _plain(model, rows)
    of_model = [props.get("model_path"), props.get("chat_template"), _mapping(_row(model, rows).get("meta"))]
    slots = _count(props.get("total_slots"))
    context = _count(settings.get("n_ctx")) or found.context
    return Look.of(
        found,
        server="llama.cpp",
        version=str(props.get("build_info") or ""),
        mark=_digest(of_model),
        context=context,
        slots=slots,
        images=_flag(_mapping(props.get("modalities")).get("vision")),
        tools=_flag(caps.get("supports_tools")),
        parallel=_flag(caps.get("supports_parallel_tool_calls")),
        why={} if context else {"context": "/props has no n_ctx for it: the model is not loaded"},
    )


async def _ollama(server: ModelServer, model: str, rows: list[Mapping[str, Any]], version: str) -> Look:
    show, tags, running = await asyncio.gather(
        _quietly(server, "/api/show", {"model": model}), _quietly(server, "/api/tags"), _quietly(server, "/api/ps")
    )
    names = tuple(str(row["id"]) for row in rows)
    own = _named(model, tags.get("models"))
    can = show.get("capabilities")
    known = can if isinstance(can, list) else None
    context, why = _ollama_context(show, _named(model, running.get("models")))
    return Look(
        server="ollama",
        version=version,
        models=names or tuple(str(one.get("name")) for one in _mappings(tags.get("models"))),
        mark=str(own.get("digest") or ""),
        context=context,
        images=None if known is None else "vision" in known,
        reasoning=None if known is None else "thinking" in known,
        tools=None if known is None else "tools" in known,
        why={"slots": "Ollama does not say how many turns it works on at once (OLLAMA_NUM_PARALLEL): taken as 1"} | why,
    )


def _ollama_context(show: Mapping[str, Any], running: Mapping[str, Any]) -> tuple[int | None, dict[str, str]]:
    """The loaded model's context, else its own parameters'; what the model was trained for says nothing."""
    trained = [value for name, value in _mapping(show.get("model_info")).items() if name.endswith(".context_length")]
    most = _count(trained[0]) if trained else None
    set_here = _NUM_CTX.search(str(show.get("parameters") or ""))
    context = _count(running.get("context_length")) or (int(set_here.group(1)) if set_here else None)
    if context is None:
        could = f", {most:,} tokens at the most" if most else ""
        return None, {"context": f"Ollama says it once the model is loaded, as OLLAMA_CONTEXT_LENGTH has it{could}"}
    return min(context, most or context), {}


def _lmstudio(model: str, rows: list[Mapping[str, Any]]) -> Look:
    own = _row(model, rows)
    can = own.get("capabilities")
    context = _count(own.get("loaded_context_length"))
    most = _count(own.get("max_context_length")) or 0
    return Look(
        server="lmstudio",
        models=tuple(str(row["id"]) for row in rows if "id" in row and row.get("type") != "embeddings"),
        mark=str(own.get("quantization") or ""),
        context=context,
        images=own["type"] == "vlm" if "type" in own else None,
        tools="tool_use" in can if isinstance(can, list) else None,
        why={"slots": "LM Studio does not say how many turns it works on at once: taken as 1"}
        | ({} if context else {"context": f"the model is not loaded; {most:,} tokens at the most"}),
    )


def _plain(model: str, rows: list[Mapping[str, Any]]) -> Look:
    row = _row(model, rows)
    context = _count(_mapping(row.get("meta")).get("n_ctx"))
    context = context or next((size for name in _CONTEXT_NAMES if (size := _count(row.get(name)))), None)
    names = [str(name) for one in rows for name in (one["id"], *_list(one.get("aliases")))]
    return Look(
        models=tuple(dict.fromkeys(names)),
        mark=_digest([row.get("root"), row.get("meta")]),
        single=len(rows) == 1,
        context=context,
        why={"slots": "the server does not say how many turns it works on at once: taken as 1"}
        | ({} if context else {"context": "the server does not say it in /models"}),
    )


async def require_chat(server: ModelServer, page: Page) -> None:
    """Raise WrongApi, KeyRefused or ServerAway. page: the server's answer to another request."""
    wrong = server.refusal(page)
    if isinstance(wrong, KeyRefused | ServerAway):
        raise wrong
    chat = await server.page(f"{server.url}/chat/completions", {}, LOOK_SECONDS)
    if has_endpoint(chat) or await _stumbles(server, "/chat/completions", chat):
        return
    told = f"{chat.code} {chat.error}".rstrip()
    raise (
        await _elsewhere(server)
        or server.refusal(chat)
        or wrong
        or WrongApi(f"{server.name} has no chat completions: it answers {told}")
    )


async def _elsewhere(server: ModelServer) -> WrongApi | None:
    tails = ("/chat/completions", "/completions", "/responses", "/models", "/api", "/v1")
    bare = next((server.url.removesuffix(tail) for tail in tails if server.url.endswith(tail)), server.url)
    for url in dict.fromkeys((f"{server.url}/v1", f"{bare}/v1", bare)):
        if (
            url != server.url
            and not url.endswith("/v1/v1")
            and rows_of(await _page(server, f"{url}/models")) is not None
        ):
            remedy = f"set DESK_PROVIDER_URL={masked(url)}"
            return WrongApi(f"{server.name} has no chat completions, {masked(url)} has", remedy=remedy)
    if has_endpoint(await _page(server, f"{server.url}/responses", {})):
        text = f"{server.name} has the Responses API and no chat completions"
        return WrongApi(text, remedy="use DESK_PROVIDER=endpoint, which speaks it")
    return None


async def require_responses(server: ModelServer) -> None:
    """Raise WrongApi, KeyRefused or ServerAway for a server without the Responses API at its URL."""
    page = await server.page(f"{server.url}/responses", {}, LOOK_SECONDS)
    if page.kind == STREAM or has_endpoint(page) or await _stumbles(server, "/responses", page):
        return
    wrong = server.refusal(page)
    if isinstance(wrong, KeyRefused | ServerAway):
        raise wrong
    bare = server.url.removesuffix("/responses")
    for url in (f"{server.url}/v1", f"{bare}/v1", bare):
        if url != server.url and has_endpoint(await _page(server, f"{url}/responses", {})):
            remedy = f"set DESK_PROVIDER_URL={masked(url)}"
            raise WrongApi(f"{server.name} has no Responses API, {masked(url)} has", remedy=remedy)
    for url in dict.fromkeys((server.url, f"{server.url}/v1")):
        if has_endpoint(await _page(server, f"{url}/chat/completions", {})):
            text = f"{server.name} has chat completions and no Responses API"
            raise WrongApi(text, remedy=f"use DESK_PROVIDER=local with DESK_PROVIDER_URL={masked(url)}")
    remedy = "set DESK_PROVIDER_URL to the base URL of a Responses API, which mostly ends in /v1"
    told = str(wrong.args[0]) if wrong is not None else f"it answers {page.code} {page.error}".rstrip()
    raise WrongApi(f"{server.name} has no Responses API: {told}", remedy=remedy)


async def _stumbles(server: ModelServer, path: str, page: Page) -> bool:
    """Return whether a server has an address, and fails at an empty request to it: one that it does not have it
    answers otherwise. page: its answer at that address, also when it was asked again. Raises ServerAway for a server
    that fails at whatever it is asked."""
    if page.code < 500 or page.code in (501, 503) or page.is_page:
        return False
    nowhere = await server.page(f"{server.url}{path}-of-nobody", {}, LOOK_SECONDS)
    if nowhere.code < 500:
        log.warning("model_server.probe_failed", server=server.name, path=path, code=page.code, said=page.error)
        return True
    raise ServerAway(
        f"the probe got {page.code} from {server.name}{path}, {len(PAUSES) + 1} times: {page.error}",
        remedy="see the server's own log, then try again",
    )


def has_endpoint(page: Page) -> bool:
    if page.is_page or page.content is None or 300 <= page.code < 400 or page.code in (401, 403, 405, 501):
        return False
    told = told_error(page.content)
    if page.code == 404:  # some look for the model before they look at the rest
        return "model" in told.lower()
    return not _NO_ENDPOINT.match(told)


def rows_of(page: Page) -> list[Mapping[str, Any]] | None:
    data = page.content.get("data") if page.code == 200 and isinstance(page.content, Mapping) else None
    return [one for one in _mappings(data) if one.get("id")] if isinstance(data, list) else None


def missing(server: ModelServer, model: str, found: Look) -> ModelMissing:
    remedy = "set DESK_MODEL to one of them"
    if found.server == "ollama":
        remedy = f"run `ollama pull {model}`, or {remedy}"
    return ModelMissing(
        f"the model server at {server.name} has no model {model}; it has {names_of(found.models)}", remedy=remedy
    )


async def _page(server: ModelServer, url: str, body: Mapping[str, Any] | None = None) -> Page:
    try:
        return await server.page(url, body, LOOK_SECONDS)
    except ServerAway:
        return Page(404, "")


async def _quietly(server: ModelServer, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    page = await _page(server, server.root + path, body)
    return _mapping(page.content) if page.code == 200 else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, Sequence) else []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _row(model: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    own = (row for row in rows if same_name(model, str(row.get("id"))))
    return next(own, rows[0] if len(rows) == 1 else {})


def _named(model: str, rows: Any) -> Mapping[str, Any]:
    return next((one for one in _mappings(rows) if same_name(model, str(one.get("name")))), {})


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12] if any(parts) else ""
