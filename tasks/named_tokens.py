"""Named tokens of people and programs: made, found and revoked. The database has their hashes alone."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
import unicodedata
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, NotFound, UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import ApiToken
from chordesk.tools.orders import audit

BYTES = 32
MCP_PATH = "/mcp"  # of the tools that agents of other programs may call: all of them read
FRESH_SECONDS = 2.0  # for so long a revoked token may go on
MOST_KEPT = 1000
NAME = re.compile(r"\w[\w .,'@+-]{0,79}")
_PREFIX = "desk_"
_TOKEN = re.compile(rf"{_PREFIX}[A-Za-z0-9_-]{{43}}")


class Scope(StrEnum):
    """What a caller of the service may do. Each includes reading."""

    READ = "read"
    START = "start"  # runs
    DECIDE = "decide"  # approvals, and the closing of a position
    OPERATE = "operate"  # halt, resume, stop, threads


CALLER = "desk.caller"  # in a request's scope


class Caller(NamedTuple):
    """Who asks. name: None for the home's own token, whose holder names a person with each request."""

    name: str | None
    scopes: frozenset[Scope]


OWNER = Caller(None, frozenset(Scope))


def scopes_of(names: Collection[str] | None) -> frozenset[Scope]:
    """None: all."""
    return OWNER.scopes if names is None else frozenset(map(Scope, names))


def scope_of(method: str, path: str) -> Scope:
    if method in ("GET", "HEAD", "OPTIONS") or path.startswith("/session") or path == MCP_PATH:
        return Scope.READ
    if path.startswith(("/approvals/", "/positions/")):
        return Scope.DECIDE
    return Scope.START if path == "/runs" else _of_feature(path)


def _of_feature(path: str) -> Scope:
    """A package may not lower what a path of the desk needs by a name, so that only the desk's own features choose."""
    name = path.split("/")[1] if path.startswith("/") else ""
    own = [one for one in features.in_force() if features.is_own(one)]
    found = (one.scope if one.name == name else one.scopes.get(name) for one in own)
    return next((Scope(scope) for scope in found if scope is not None), Scope.OPERATE)


def add(session: Session, settings: Settings, name: str, scopes: Collection[Scope], by: str) -> str:
    if not NAME.fullmatch(name) or name != unicodedata.normalize("NFKC", name).strip():
        raise UsageError(f"{name!r} is no name", remedy="use letters, digits, spaces within and . , ' @ + -")
    row = session.get(ApiToken, name, with_for_update=True) or ApiToken(name=name, digest="", made_by=by)
    if row.digest and row.revoked_at is None:
        raise UsageError(f"there is a token of {name} already", remedy=f"`desk tokens revoke {name!r}` ends it")
    token = f"{_PREFIX}{secrets.token_urlsafe(BYTES)}"
    row.digest, row.made_by, row.made_at, row.revoked_at = _digest(token), by, utcnow(), None
    row.scopes = sorted({*map(str, scopes), Scope.READ.value})
    session.add(row)
    audit.record(session, settings, "token_made", name=name, scopes=row.scopes, by=by)
    return token


def revoke(session: Session, settings: Settings, name: str, by: str) -> None:
    row = session.get(ApiToken, name, with_for_update=True)
    if row is None or row.revoked_at is not None:
        raise NotFound(f"there is no token of {name!r} in force", remedy="`desk tokens list` shows them")
    row.revoked_at = utcnow()
    session.add(row)
    audit.record(session, settings, "token_revoked", name=name, by=by)


def listed(session: Session) -> Sequence[ApiToken]:
    return session.exec(select(ApiToken).order_by(col(ApiToken.made_at))).all()


class Tokens:
    """The home's own token, and the named ones as a service sees them, at most FRESH_SECONDS old. store: None where
    there is no database to look them up in."""

    def __init__(self, own: str, store: Store | None) -> None:
        self._own, self._store = _digest(own), store
        self._known: dict[str, tuple[float, Caller | None]] = {}

    async def find(self, token: str) -> Caller | None:
        """Raises DatabaseDown. Digests are compared: their time does not reveal the length of the own token."""
        digest, now = _digest(token), time.monotonic()
        if hmac.compare_digest(digest, self._own):
            return OWNER
        if self._store is None or not _TOKEN.fullmatch(token):
            return None
        until, found = self._known.get(digest, (0.0, None))
        if until < now:
            found = await asyncio.to_thread(self._read, self._store, digest)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[digest] = now + FRESH_SECONDS, found
        return found

    def _read(self, store: Store, digest: str) -> Caller | None:
        try:
            with store.read() as session:
                row = session.exec(
                    select(ApiToken).where(ApiToken.digest == digest, col(ApiToken.revoked_at).is_(None))
                ).first()
        except SQLAlchemyError as error:
            raise DatabaseDown(f"the database does not answer: {type(error).__name__}") from None
        return Caller(row.name, frozenset(map(Scope, row.scopes))) if row is not None else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
