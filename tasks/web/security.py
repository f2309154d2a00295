"""Access control: a request needs the token, and may come from no web page but one of this server's own.

Three requests need no token: for the page's own files, which hold nothing of the desk; for a session in exchange for a
one-time code; and the navigation to `/`, a link on a foreign site too, which opens the page's shell and nothing else.

A page in a browser on this machine can reach a server on loopback, too. It has no token; and even with one it is
refused: its Origin is another, and a name of its own that resolves to 127.0.0.1 (DNS rebinding) is not an allowed Host.
There is no CORS answer, so no preflight passes either.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from chordesk.models.descriptions import said
from chordesk.models.errors import DeskError, SettingError
from chordesk.models.settings import Settings
from chordesk.tasks.named_tokens import CALLER, OWNER, Caller, Tokens, scope_of, scopes_of
from chordesk.tasks.web.connection_limits import MOST_BYTES, MOST_DEPTH, is_too_deep, let_in
from chordesk.tasks.web.page.assets import PREFIX
from chordesk.tasks.web.page.page_sessions import Sessions
from chordesk.tasks.web.problems import Problem, answer, problem, problem_of

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("", "0.0.0.0", "::")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CHECK_SECONDS = 4.0  # between two looks at whether the session of an open stream has ended
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://([^/]+)")
_LENGTH = re.compile(r"\d{1,12}")
_OWN_SITE = ("same-origin", "none")
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def host_names(settings: Settings) -> frozenset[str]:
    more = [part.strip().strip("[]") for part in settings.api_hosts.split(",")]
    own = [] if settings.api_host in EVERYWHERE else [settings.api_host]
    return frozenset(name.lower() for name in (*LOOPBACK_NAMES, *own, *more) if name)


class Guard:
    """Middleware around every path, unknown ones too. hosts: allowed Host names, in lower case and without port.
    sessions: those of the page; None where there is no page, and so no request without a token. Routes find the caller
    in the scope."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], tokens: Tokens, sessions: Sessions | None = None) -> None:
        self._app, self._hosts, self._tokens, self._sessions = app, hosts, tokens, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._handshake(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answering, headers = _hardened(send), Headers(scope)
        opens = self._sessions is not None and _opens_page(scope, headers)
        if opens:
            scope = {**scope, "path": PREFIX, "raw_path": PREFIX.encode()}
        refused = self._place_refusal(headers, opens)
        if refused is None and (self._sessions is None or not _needs_no_token(scope)):
            shown = bearer(headers)
            caller = await self._caller(shown)
            refused = caller if isinstance(caller, Problem) else _scope_refusal(scope, caller)
            answering = answering if caller is OWNER else self._while_it_lasts(shown, answering)
            scope = {**scope, CALLER: caller}
            if refused is None:
                let_in(scope)
        if refused is None:
            await self._app(scope, receive, answering)
            return
        extra = {"WWW-Authenticate": "Bearer"} if refused.status == HTTPStatus.UNAUTHORIZED else None
        await answer(refused, extra)(scope, receive, _hardened(send))

    async def _handshake(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The token comes in the first message. A page of another server can open a WebSocket, and its Origin shows
        it."""
        refused = self._place_refusal(Headers(scope), opens=False)
        if refused is None:
            await self._app(scope, receive, send)
            return
        await WebSocket(scope, receive, send).send_denial_response(answer(refused))

    def _place_refusal(self, headers: Headers, opens: bool) -> Problem | None:
        """opens: a person opens the page, by a link on any site."""
        host = headers.only("host").lower()
        if not self._is_ours(host):
            return problem(
                HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", "this server does not accept that Host name",
                "use the address it printed, or add the name to DESK_API_HOSTS",
            )  # fmt: skip
        if not opens and not _same_site(headers, host):
            return problem(
                HTTPStatus.FORBIDDEN, "foreign_origin", "the request comes from a web page of another server",
                "call the service from a program",
            )  # fmt: skip
        return None

    async def _caller(self, shown: str) -> Caller | Problem:
        try:
            if (known := await self._tokens.find(shown)) is not None:
                return known
            if self._sessions is not None and (session := await self._sessions.find(shown)) is not None:
                return Caller(session.by, scopes_of(session.scopes))
        except DeskError as error:
            return problem_of(error)
        return problem(
            HTTPStatus.UNAUTHORIZED, "no_token", "the token is missing or wrong, or its session has ended",
            "send Authorization: Bearer TOKEN; the server printed where the token is as it started. `desk page` logs "
            "a browser in",
        )  # fmt: skip

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        return found is not None and found[1].strip("[]") in self._hosts

    def _while_it_lasts(self, shown: str, send: Send) -> Send:
        """Wrap `send` to end an answer that goes on, an event stream, soon after its session or token has ended."""
        checked, over = time.monotonic(), False

        async def guarded(message: Message) -> None:
            nonlocal checked, over
            if over:
                return
            if message["type"] == "http.response.body" and time.monotonic() - checked > CHECK_SECONDS:
                over = isinstance(await self._caller(shown), Problem)
                checked = time.monotonic()
                message = {"type": "http.response.body", "body": b"", "more_body": False} if over else message
            await send(message)

        return guarded


def _scope_refusal(scope: Scope, caller: Caller) -> Problem | None:
    wanted = scope_of(scope["method"], scope["path"])
    if wanted in caller.scopes:
        return None
    return problem(
        HTTPStatus.FORBIDDEN, "wrong_scope", f"this token may not {wanted}",
        f"make one that may: `desk tokens add NAME --scope {wanted}`",
    )  # fmt: skip


def bearer(headers: Headers) -> str:
    scheme, _, token = headers.only("authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _opens_page(scope: Scope, headers: Headers) -> bool:
    """A whole page, not a frame or a program. Browsers name their intent on loopback and over TLS; elsewhere they
    accept HTML."""
    if scope["method"] != "GET" or scope["path"] not in ("/", PREFIX):
        return False
    if "sec-fetch-mode" in headers or "sec-fetch-dest" in headers:
        return (headers.only("sec-fetch-mode"), headers.only("sec-fetch-dest")) == ("navigate", "document")
    return "authorization" not in headers and "text/html" in headers.only("accept")


def _needs_no_token(scope: Scope) -> bool:
    method, path = scope["method"], str(scope["path"])
    return (method == "GET" and path.startswith(PREFIX)) or (method == "POST" and path == "/session")


class Headers:
    """The headers of a request by name. One that was sent twice counts as missing: another reader may see the other
    value."""

    def __init__(self, scope: Scope) -> None:
        self._found: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def only(self, name: str) -> str:
        values = self._found.get(name, [])
        return values[0] if len(values) == 1 else ""


def _same_site(headers: Headers, host: str) -> bool:
    """False for a request of another site's page. Programs send neither header."""
    if "origin" in headers:
        found = _ORIGIN.fullmatch(headers.only("origin").lower())
        if found is None or found[1] != host:
            return False
    return "sec-fetch-site" not in headers or headers.only("sec-fetch-site").lower() in _OWN_SITE


class JsonRoute(APIRoute):
    """A route that accepts only JSON as a body: browsers would send a form's content types without a preflight."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except SystemExit as error:  # it would end the service
                raise RuntimeError(f"{request.url.path} ended by {said(error)}") from error

        async def checked(request: Request) -> Response:
            if request.method in SAFE_METHODS:
                return await handle(request)
            try:
                wrong = _wrong_head(Headers(request.scope)) or _wrong_body(await request.body())
                wrong = wrong or await _wrong_person(request)
            except ClientDisconnect:  # nobody reads the answer
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            return await handle(request) if wrong is None else answer(wrong)

        return checked


def _wrong_head(headers: Headers) -> Problem | None:
    if headers.only("content-type").partition(";")[0].strip().lower() != "application/json":
        detail, remedy = "the body is not application/json", "send Content-Type: application/json"
        return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "wrong_content_type", detail, remedy)
    length = headers.only("content-length")
    if not _LENGTH.fullmatch(length):
        return problem(
            HTTPStatus.LENGTH_REQUIRED,
            "no_length",
            "the Content-Length header is missing or wrong",
            "send Content-Length",
        )
    if int(length) > MOST_BYTES:
        detail = f"the body has {length} bytes, at most {MOST_BYTES} are allowed"
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", detail, "send less")
    return None


def _wrong_body(body: bytes) -> Problem | None:
    if not is_too_deep(body.decode(errors="replace")):
        return None
    detail = f"the body's JSON is nested more than {MOST_DEPTH} deep"
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "too_deep", detail, "nest less")


async def _wrong_person(request: Request) -> Problem | None:
    """Return the refusal of a request in the name of another than its session's or token's; None for any other."""
    caller = request.scope.get(CALLER)
    if caller is None or caller.name is None:
        return None
    try:
        body = await request.json()
    except ValueError:
        return None  # its own answer says so
    given = body.get("by", caller.name) if isinstance(body, dict) else caller.name
    if given == caller.name:
        return None
    detail = f"the request is by {str(given)[:80]!r}, and whoever asks is {caller.name!r}"
    return problem(HTTPStatus.FORBIDDEN, "another_name", detail, f"send by={caller.name!r}")


def _hardened(send: Send) -> Send:
    """Wrap `send` to add headers that keep browsers from caching, framing, sniffing or sharing the answer."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            added = [pair for pair in _HEADERS if pair[0] not in given]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return hardened


BYTES = 32
_KEPT = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """The token and its place. value is never shown; where: the variable or file in which the user finds it."""

    value: str
    where: str


FLOWER_USER = "desk"


def flower_path(home: Path) -> Path:
    return home / "run" / "flower-password"


def token_of(settings: Settings) -> Token:
    if settings.api_token is not None:
        return Token(settings.api_token.get_secret_value(), "DESK_API_TOKEN")
    return _token_at(settings.home / "run" / "api-token", "DESK_API_TOKEN")


def flower_login(settings: Settings) -> Token:
    """Without DESK_FLOWER_AUTH the password is kept in the home. Raises SettingError."""
    if settings.flower_auth is not None:
        return Token(settings.flower_auth.get_secret_value(), "DESK_FLOWER_AUTH")
    found = _token_at(flower_path(settings.home), "DESK_FLOWER_AUTH")
    return Token(f"{FLOWER_USER}:{found.value}", found.where)


def _token_at(path: Path, variable: str) -> Token:
    try:
        return Token(_kept(path) or _made(path), str(path))
    except OSError as error:
        raise SettingError(
            f"the file {path} cannot be used: {error.strerror}", remedy=f"remove it, or set {variable}"
        ) from None


def _kept(path: Path) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        found, text = os.fstat(handle), file.read(1000).strip()
    private = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if private and _KEPT.fullmatch(text):
        return text
    path.unlink()
    return None


def _made(path: Path) -> str:
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(BYTES) + "\n")
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
    return path.read_text(encoding="ascii").strip()
