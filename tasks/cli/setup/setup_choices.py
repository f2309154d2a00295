"""What was chosen, by flags, variables, files or a person at the terminal, and the variables of `.env` that say it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

import typer

from chordesk.models import urls
from chordesk.models.errors import DeskError, KeyRefused, ModelMissing, ServerAway, SettingError, UsageError, WrongApi
from chordesk.models.features import require_extra
from chordesk.models.files import expanded
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import read_secret
from chordesk.models.text import inert, without_secrets
from chordesk.models.urls import masked
from chordesk.tasks.cli.output import print_line

if TYPE_CHECKING:
    from chordesk.agents.gateway.server_requests import ModelServer

PROVIDERS: tuple[str, ...] = get_args(Settings.model_fields["provider"].annotation)
SERVED: tuple[str, ...] = ("endpoint", "local")  # providers with a URL, and perhaps a key
PROVIDER, URL, MODEL, MARKET = "DESK_PROVIDER", "DESK_PROVIDER_URL", "DESK_MODEL", "DESK_MARKET"
KEY, KEY_FILE = "DESK_PROVIDER_KEY", "DESK_PROVIDER_KEY_FILE"
OURS = (PROVIDER, URL, KEY, KEY_FILE, MODEL, MARKET)
SECRETS = frozenset({KEY})
KEYS = "keys"  # folder of the home


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or none."""

    text: str | None = field(default=None, repr=False)  # None without one
    path: Path | None = None  # the file that has it
    kept: bool = False  # that is the desk's own, and is written
    known: bool = False  # `.env` names it already, and that stays as it is


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider with all that it needs. market: None leaves it as it is."""

    provider: str
    url: str | None = None
    model: str | None = None
    key: Key = Key()
    market: str | None = None

    @property
    def label(self) -> str:
        at = f" at {self.url}" if self.url else ""
        return "the rulebook" if self.provider == "rulebook" else f"{self.model}{at}"

    def variables(self) -> dict[str, str | None]:
        """Return the variables that the choice sets; None takes one out."""
        found: dict[str, str | None] = {PROVIDER: self.provider}
        if self.url is not None:
            found[URL] = self.url
        if self.model is not None:
            found[MODEL] = self.model
        if self.provider in SERVED and not self.key.known:
            found |= {KEY: None, KEY_FILE: str(self.key.path) if self.key.path is not None else None}
        if self.market is not None:
            found[MARKET] = self.market
        return found

    def trial(self, dotenv: Mapping[str, str | None]) -> dict[str, str | None]:
        found = {**dotenv, **self.variables()}
        if self.key.text is not None and not self.key.known:
            found |= {KEY: self.key.text, KEY_FILE: None}
        return found


def key_path(home: Path, url: str) -> Path:
    """Return the file of a server's key in the home: each has its own, so that none gets another's."""
    parts = urlsplit(url)
    name = f"{parts.hostname}{f'-{parts.port}' if parts.port else ''}"
    return home / KEYS / f"{''.join(sign if sign.isalnum() or sign in '.-' else '_' for sign in name)}.key"


OPENAI = "https://api.openai.com/v1"
_PATHS = ("/chat/completions", "/responses", "/models")  # of requests, which people copy with the URL


@dataclass(frozen=True, slots=True)
class Flags:
    """None where the command line says nothing. look: servers are asked what they have."""

    provider: str | None = None
    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    key_file: Path | None = None
    no_key: bool = False
    market: str | None = None
    look: bool = True

    def check(self) -> None:
        if self.provider is not None and self.provider not in PROVIDERS:
            raise UsageError(f"--provider {self.provider!r} is none", remedy=f"one of: {', '.join(PROVIDERS)}")
        keys = {"--key-env": self.key_env, "--key-file": self.key_file, "--no-key": self.no_key or None}
        given = [name for name, value in keys.items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are given at once", remedy="give one of them")
        if self.provider is not None and self.provider not in SERVED:
            for name in [*(["--url"] if self.url is not None else []), *given]:
                reason = f"{name} is given, and the provider {self.provider} has no use for it"
                raise UsageError(reason, remedy=f"leave it out, or give --provider {' or '.join(SERVED)}")
        if self.provider == "rulebook" and self.model is not None:
            raise UsageError("--model is given, and the rulebook is no model", remedy="leave it out")


def base_url(text: str) -> str:
    url = text.strip().rstrip("/")
    for path in _PATHS:
        url = url.removesuffix(path)
    try:
        return urls.require_http(url)
    except ValueError as error:
        shown = urls.masked(without_secrets(text))
        raise UsageError(f"{shown!r} is no base URL: it {error}", remedy=f"such as {OPENAI}") from None


def model_name(text: str) -> str:
    if len(text.split()) != 1 or not text.isprintable():
        raise UsageError(f"{text!r} is no model's name", remedy="give the name by which its server knows it")
    return text.strip()


Read = Callable[[str], str]  # what was typed, as it is used; raises DeskError for what cannot be


class Person:
    """Asks at the terminal. Without one a question is a UsageError that names its flag."""

    def __init__(self, terminal: bool | None = None) -> None:
        self.terminal = sys.stdin.isatty() and sys.stdout.isatty() if terminal is None else terminal

    def ask(self, question: str, flag: str, default: str | None = None, read: Read = str.strip) -> str:
        self._require(flag)
        found: str = typer.prompt(question, default=default, value_proc=lambda text: _read(text, read))
        return found

    def choose(self, question: str, flag: str, options: Sequence[str], default: int | None = None) -> int:
        self._require(flag)
        print(question)
        for number, option in enumerate(options, 1):
            print(f"  {number}  {option}")
        shown = str(default + 1) if default is not None else None
        return int(self.ask("Number", flag, shown, lambda text: _number(text, len(options)))) - 1

    def secret(self, question: str, flag: str, read: Read) -> str:
        self._require(flag)
        found: str = typer.prompt(
            question, default="", show_default=False, hide_input=True, value_proc=lambda text: _read(text, read)
        )
        return found

    def agrees(self, question: str, default: bool) -> bool:
        """Ask for yes or no; without a terminal the default is the answer."""
        return typer.confirm(question, default=default) if self.terminal else default

    def _require(self, flag: str) -> None:
        if not self.terminal:
            raise UsageError(f"{flag} is missing, and there is no terminal to ask at", remedy=f"add {flag}")


def _read(text: str, read: Read) -> str:
    try:
        return read(text.strip())
    except DeskError as error:
        raise typer.BadParameter(str(error)) from None


def _number(text: str, most: int) -> str:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"{text!r} is none of the numbers", remedy=f"1 to {most}")
    return text


_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Before:
    """What holds before the choice. dotenv: the variables of `.env`. settings: those that setup does not choose."""

    dotenv: Mapping[str, str | None]
    settings: Settings

    def of(self, name: str) -> str | None:
        return self.dotenv.get(name) or None


def key_for(flags: Flags, before: Before, person: Person, url: str, *, needed: bool) -> Key:
    """Return the key for a URL. needed: where none is given the person is asked. Raises UsageError, SettingError."""
    if flags.no_key:
        return Key()
    if flags.key_env is not None:
        return Key(_checked(_of_variable(flags.key_env), "--key-env"), key_path(before.settings.home, url), kept=True)
    if flags.key_file is not None:
        path = expanded(flags.key_file).absolute()
        return Key(_checked(_of_file(path), "--key-file"), path)
    if before.of(URL) in (url, f"{url}/v1") and (found := before.of(KEY) or before.of(KEY_FILE)):
        return Key(found if before.of(KEY) else read_secret(KEY_FILE, found), known=True)
    if not needed:
        return Key()
    if not person.terminal:
        reason = "--key-env, --key-file or --no-key is missing, and there is no terminal to ask at"
        raise UsageError(reason, remedy="add --key-env NAME (of the variable that has the key), or --key-file PATH")
    return typed_key(before, person, url)


def typed_key(before: Before, person: Person, url: str) -> Key:
    question = "Key (it is not shown; Enter for none)"
    text = person.secret(question, "--key-env", lambda given: given and _checked(given, "this"))
    return Key(text, key_path(before.settings.home, url), kept=True) if text else Key()


def _of_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise UsageError(
            "--key-env is no variable's name", remedy="name the variable that has the key, such as OPENAI_API_KEY"
        )
    if not (found := os.environ.get(name, "").strip()):
        raise UsageError(f"--key-env {without_secrets(name)}: no such variable is set", remedy="export it first")
    return found


def _of_file(path: Path) -> str:
    try:
        return read_secret("--key-file", str(path))
    except SettingError as error:
        raise UsageError(without_secrets(str(error.args[0])), remedy="write the key into it, as one line") from None


def _checked(text: str, source: str) -> str:
    if not _KEY.fullmatch(text):
        raise UsageError(f"{source} is no key: it has spaces, or signs that no key has", remedy="copy it again")
    return text


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
    """A model server."""

    url: str
    models: tuple[str, ...] | None = None  # None where it lists none
    needs_key: bool = False  # it says nothing without a key
    name: str = ""  # of the program that usually listens there


def usual_places(environ: Mapping[str, str]) -> list[Found]:
    """Return where servers usually are on loopback, and before them where OLLAMA_HOST says that Ollama is."""
    found = [Found(f"http://{LOOPBACK}:{port}/v1", name=name) for name, port in USUAL]
    own = ollama_url(environ.get(OLLAMA_HOST, ""))
    return found if own is None else [Found(own, name="Ollama"), *(each for each in found if each.url != own)]


def ollama_url(host: str) -> str | None:
    """The base URL of what OLLAMA_HOST names, as Ollama reads it; None where it names nothing."""
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
    """A URL gets /v1 where the server has its models there. responses: a Responses API alone will do. Raises
    ServerAway, KeyRefused, WrongApi."""
    return asyncio.run(_look(access, responses))


def has_responses(access: Access) -> bool:
    return asyncio.run(_has_responses(access))


async def _find(places: Sequence[Found]) -> list[Found]:
    answers = await asyncio.gather(*(_answers(each) for each in places))
    return [each for each in answers if each is not None]


async def _answers(place: Found) -> Found | None:
    # Loaded here, and below: the HTTP library takes 0.3 s, and not every choice has use for it.
    from chordesk.agents.gateway.server_description import rows_of
    from chordesk.agents.gateway.server_requests import reaching

    try:
        async with reaching(place.url, None) as server:
            page = await server.page(f"{server.url}/models")
    except ServerAway:
        return None
    if (rows := rows_of(page)) is not None:
        return Found(place.url, tuple(str(row["id"]) for row in rows), name=place.name)
    return Found(place.url, needs_key=True, name=place.name) if isinstance(server.refusal(page), KeyRefused) else None


async def _look(access: Access, responses: bool) -> Found:
    from chordesk.agents.gateway.server_description import require_chat
    from chordesk.agents.gateway.server_requests import reaching

    async with reaching(access.url, access.key, access.ca_file) as server:
        for url in (server.url,) if urlsplit(server.url).path else (f"{server.url}/v1", server.url):
            if (models := await _models_at(server, url)) is not None:
                return Found(url, models)
        if not responses or not await _takes_responses(server):
            await require_chat(server, await server.page(f"{server.url}/models"))
    return Found(access.url)


async def _models_at(server: ModelServer, url: str) -> tuple[str, ...] | None:
    from chordesk.agents.gateway.server_description import rows_of

    rows = rows_of(await server.page(f"{url}/models"))
    return None if rows is None else tuple(str(row["id"]) for row in rows)


async def _has_responses(access: Access) -> bool:
    from chordesk.agents.gateway.server_requests import reaching

    async with reaching(access.url, access.key, access.ca_file) as server:
        return await _takes_responses(server)


async def _takes_responses(server: ModelServer) -> bool:
    from chordesk.agents.gateway.server_description import has_endpoint

    page = await server.page(f"{server.url}/responses", {})
    return page.kind == "text/event-stream" or has_endpoint(page)


MARKETS: Mapping[str, str] = {
    "replay": "real daily prices of 2009 and 2010; no network",
    "yahoo": "Yahoo, today's prices and news",
}
MOST_SHOWN = 40  # models of a list
NO_TERMINAL = "is missing, and there is no terminal to ask at"


def decide(flags: Flags, before: Before, person: Person) -> Choice:
    """Raises UsageError for wrong flags, or missing ones without a terminal; ModelServerError, ModelMissing."""
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
    """The chosen server and its model (None: yet to be named); None for another server."""
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
    """What answers at a URL, and its key, asked for again where refused. hosted: it will want one. Raises
    ModelServerError."""
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
    """strict: the server has no models but those that it lists; some list none of a customer's own."""

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
